#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/comm/store.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera {

/// One rank of a world of threads that holds its part of a few tensors, cut in every way there is.
class CheckpointRank {
  // Before the tensors, which live in the device's memory.
  Mesh mesh_;
  std::unique_ptr<HostDevice> device_;
  std::vector<std::unique_ptr<Parameter>> parameters_;

 public:
  CheckpointRank(const Layout& layout, i64 rank, Store& store, const std::string& folder);
  const Mesh& mesh() const { return mesh_; }
  bool root() const { return mesh_.rank() == 0; }
  /// To be changed before checkpoints() is called.
  CheckpointArguments arguments;
  std::vector<CheckpointTensor> tensors;
  Checkpoints checkpoints() const { return Checkpoints(arguments); }

  /// Writes value(logical element, salt) everywhere, padding zero.
  void fill(i64 salt);
  /// Writes nonsense everywhere, padding too.
  void spoil();
  /// Names of tensors that do not hold exactly what fill(salt) writes.
  std::string wrong(i64 salt) const;
  /// Keeps only this data rank's share of each tensor, as an optimizer does that cuts its state
  /// over the replicas. Shares end within rows. Some are empty, and the last data rank holds all of
  /// what has one element, which another rank would save if all held it.
  void keep_share();
  void add(const std::string& name,
           const Shape& logical,
           const std::vector<Split>& split,
           DType dtype);

 private:
  std::vector<std::byte> expected(const CheckpointTensor& tensor, i64 salt) const;
};

Layout world_of(i64 tensor, i64 data);
CheckpointInfo info_at(i64 step);

/// Runs the body on every rank; returns what each threw, "code: text", or "".
std::vector<std::string> on_ranks(const Layout& layout,
                                  const std::string& folder,
                                  const std::function<void(CheckpointRank&)>& body);
/// The same for bodies that must not throw.
void run_ranks(const Layout& layout,
               const std::string& folder,
               const std::function<void(CheckpointRank&)>& body);
/// Saves fill(step) as this step.
void save_step(const Layout& layout, const std::string& folder, i64 step, i64 keep = 0);

}  // namespace tessera
