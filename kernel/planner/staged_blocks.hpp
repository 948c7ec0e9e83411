#pragma once
#include <map>

#include "tessera/process_group.hpp"

namespace tessera {

/// Host blocks that staged collectives take (comm.staged), as if each rank waited for its own:
/// those of a rank's BlockCache, which keeps what it made.
class StagedBlocks {
 public:
  void started(u64 id, const GroupSpec& group, const Collective& collective);
  void waited(u64 id);
  /// Bytes of all blocks that were made.
  i64 bytes() const { return bytes_; }

 private:
  struct Class {
    i64 in_use = 0, made = 0;
  };
  std::map<i64, Class> classes_;  // by bytes of a block
  std::map<u64, i64> under_way_;  // by collective: bytes of its block
  i64 bytes_ = 0;
};

}  // namespace tessera
