#include "kernel/graph/lifetimes.hpp"

#include "tessera/arena.hpp"
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

void LifetimeRecorder::keep_live() {
  for (const auto& [address, request] : open_) requests_[request].kept = true;
}

Lifetimes LifetimeRecorder::lifetimes() const {
  ArenaLayout kept, scratch;
  std::vector<i64> offsets(requests_.size());
  for (const Step& step : steps_) {
    const Request& request = requests_[step.request];
    ArenaLayout& layout = request.kept ? kept : scratch;
    if (step.stream != nullptr) {
      offsets[step.request] = layout.allocate(request.bytes, *step.stream);
    } else {
      layout.release(offsets[step.request]);
    }
  }
  return {requests_, kept.used_to(), scratch.used_to()};
}

}  // namespace tessera
