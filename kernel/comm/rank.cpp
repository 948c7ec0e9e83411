#include "kernel/comm/rank.hpp"

#include <utility>

#include "kernel/comm/build_mesh.hpp"

namespace tessera {

Rank join_rank(const Layout& layout,
               i64 rank,
               std::shared_ptr<Communicator> communicator,
               std::shared_ptr<Device> device,
               std::shared_ptr<Progress> progress) {
  Rank made;
  made.progress = std::move(progress);
  made.communicator = std::move(communicator);
  made.device = std::move(device);
  made.mesh = std::make_unique<Mesh>(RankGenerator(layout), rank);
  if (made.communicator != nullptr) {
    build_mesh(*made.mesh, *made.communicator, *made.device, made.progress.get());
  } else {
    build_mesh(*made.mesh);
  }
  made.ops = std::make_unique<CoreOps>(*made.device);
  return made;
}

Context Rank::context() const {
  Context cx;
  cx.device = device.get();
  cx.ops = ops.get();
  cx.stream = &device->stream();
  cx.pool = &device->pool();
  cx.mesh = mesh.get();
  return cx;
}

void Rank::abort(std::string_view reason) const noexcept {
  if (communicator != nullptr) communicator->abort(reason);
}

}  // namespace tessera
