#pragma once
#include <compare>
#include <map>
#include <set>
#include <string>

#include "tessera/device/device.hpp"
#include "tessera/mesh.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// What the groups of one rank do in a step, as a dry run sees it. A library that carries out
/// collectives on a device connects ranks at the first use of an algorithm, which it chooses by
/// kind and size. That may never end while a kernel waits for peers, so it is done before step 1.
class Connections {
 public:
  void saw(const GroupSpec& group, const Collective& collective);
  /// Does one collective of each kind and size that was seen, on memory of its own, and waits for
  /// each on the host. All ranks call it at once; they go through their groups in one global order,
  /// so they cannot deadlock. Leaves no trace in counters of groups and peaks of memory.
  void make(const Mesh& mesh, Device& device) const;

 private:
  struct Kind {
    CollectiveKind kind;
    DType dtype;
    ReduceOp op;
    i64 elements;  ///< of the input; of transfers, 0
    auto operator<=>(const Kind&) const = default;
  };
  struct Use {
    std::set<Kind> kinds;
    std::set<int> sends, receives;  ///< peers of exchanges
  };
  static void make(ProcessGroup& group, const Use& use, Device& device);

  std::map<std::string, Use> by_group_;
};

}  // namespace tessera
