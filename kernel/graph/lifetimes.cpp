#include "kernel/graph/lifetimes.hpp"

#include "sdk/src/shared/arena.hpp"
#include "tessera/error.hpp"

namespace tessera {

Block LifetimeRecorder::allocate(i64 bytes, Category category, Stream& stream) {
  const Block block = parent_.allocate(bytes, category, stream);
  open_[block.address] = requests_.size();
  steps_.push_back({requests_.size(), &stream});
  requests_.push_back({bytes});
  return block;
}

void LifetimeRecorder::release(const Block& block) {
  const auto found = open_.find(block.address);
  require(found != open_.end(), "release of a block that this warm-up did not request");
  steps_.push_back({found->second, nullptr});
  open_.erase(found);
  parent_.release(block);
}

void LifetimeRecorder::end_graph(Lifetime rest) {
  for (const auto& [address, request] : open_) {
    Lifetime& lifetime = requests_[request].lifetime;
    if (lifetime == Lifetime::graph) lifetime = rest;
  }
}

Lifetimes LifetimeRecorder::lifetimes() const {
  std::array<ArenaLayout, kLifetimes> layouts;
  std::vector<i64> offsets(requests_.size());
  for (const Step& step : steps_) {
    const Request& request = requests_[step.request];
    ArenaLayout& layout = layouts[static_cast<std::size_t>(request.lifetime)];
    if (step.stream != nullptr) {
      offsets[step.request] = layout.allocate(request.bytes, *step.stream);
    } else {
      layout.release(offsets[step.request]);
    }
  }
  Lifetimes found{requests_};
  for (std::size_t i = 0; i < layouts.size(); ++i) found.arena_bytes[i] = layouts[i].used_to();
  return found;
}

}  // namespace tessera
