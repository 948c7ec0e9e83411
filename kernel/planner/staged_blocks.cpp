#include "kernel/planner/staged_blocks.hpp"

#include "kernel/comm/block_cache.hpp"
#include "kernel/comm/block_layout.hpp"

namespace tessera {

void StagedBlocks::started(u64 id, const GroupSpec& group, const Collective& collective) {
  const i64 size = BlockCache::block_bytes(BlockLayout(collective, group.index).bytes());
  under_way_[id] = size;
  Class& of = classes_[size];
  if (++of.in_use <= of.made) return;
  ++of.made;
  bytes_ += size;
}

void StagedBlocks::waited(u64 id) {
  const auto found = under_way_.find(id);
  if (found == under_way_.end()) return;
  --classes_[found->second].in_use;
  under_way_.erase(found);
}

}  // namespace tessera
