#pragma once
#include <functional>
#include <memory>

#include "kernel/comm/rank.hpp"
#include "kernel/dry/meta_device.hpp"
#include "kernel/dry/simulated.hpp"

namespace tessera {

/// Callbacks that are told what a dry rank would launch and communicate.
struct DryEvents {
  MetaDevice::OnLaunch launched = {};
  MetaDevice::OnRead read = {};
  std::function<void()> replayed = {};
  SimulatedCommunicator::Events collectives = {};
};
/// The same rank over absent hardware: memory, messages, launches and errors are those of a real
/// one, but nothing is stored, sent or computed. `stands_for` is a rank's device, or a planned one;
/// `imbalance` is Device::assumed_imbalance.
Rank dry_rank(const Layout& layout,
              i64 rank,
              std::shared_ptr<Device> stands_for,
              DryEvents events = {},
              double imbalance = 1);

}  // namespace tessera
