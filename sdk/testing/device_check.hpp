#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/device/device.hpp"

namespace tessera::testing {

/// Makes the device under test from what the check gives, changed where the author must (a seed, a
/// thread count). Called several times; at most two of its devices live at one time.
using MakeDevice = std::function<std::shared_ptr<Device>(const DeviceArguments& arguments)>;

/// Holds a device against the contract of device.hpp: order of streams, events and waits, lifetimes
/// of tensors and host blocks, memory statistics, capture with its refusals, replay, errors of
/// asynchronous work, copies, kinds of memory. What its operations compute is op_check's part; it
/// needs `fill` and `add` of fp32 tensors.
///
/// Empty when all holds, else one line per problem, which begins with the part of the contract:
/// "events: join ignored its deadline". Takes about two seconds. A promise about order that is
/// broken now and then is found now and then: run it several times, for a host device over several
/// DeviceArguments::deferred_seed.
///
/// `part` runs one part alone, to work on a problem. Throws Error when there is none of this name.
TESSERA_API std::string device_check(const MakeDevice& make_device, std::string_view part = {});

}  // namespace tessera::testing
