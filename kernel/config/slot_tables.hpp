#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/config/tree.hpp"

namespace tessera {

/// The table of a slot, in which a configuration writes something. Whether the component around it
/// makes what is in the slot shows only when it is built itself.
struct WrittenSlot {
  std::string path;    ///< "model.head.norm"
  std::string around;  ///< the component that has the slot: "model.head"
  std::string doc;     ///< of the slot
  std::string key;     ///< the first that is written
  Origin at;           ///< of the key
};

/// All of them, but for those that say nothing more than the slot's default type.
struct SlotTables {
  std::vector<WrittenSlot> written;
  struct Variant {
    std::string path, base;  ///< "model.blocks.dense", "model.block"
  };
  std::vector<Variant> variants;
};

}  // namespace tessera
