#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/collective.hpp"
#include "tessera/base/work.hpp"

namespace tessera {

class Device;
class GroupBackend;
class Progress;

struct GroupSpec {
  std::string name;          ///< "tp[0,1]"
  std::vector<i64> members;  ///< global ranks, in group order
  int index = 0;             ///< of this rank among the members
  int id = 0;                ///< the same on all members, unique in the world
  CommLane lane = CommLane::critical;

  int size() const { return static_cast<int>(members.size()); }
  i64 rank_of(int member) const { return members[static_cast<std::size_t>(member)]; }
};

/// Counts the collectives that a group has started.
struct GroupCounters {
  struct Entry {
    i64 calls = 0, bytes = 0;  ///< bytes: of this rank's input; of parts, those for other members
  };
  Entry kinds[7];  ///< by CollectiveKind
  const Entry& operator[](CollectiveKind kind) const { return kinds[static_cast<int>(kind)]; }
};

/// An ordered set of ranks and the collectives among them. Layers use differentiable collectives
/// (collectives.hpp) instead. All members call the same collectives in the same order. Every
/// collective has a name and a deadline; a timeout, a size mismatch and a dead peer are Errors that
/// name rank, group and operation. A group of one does nothing and counts nothing.
///
/// A collective starts after what is enqueued on `after`, the stream that its inputs were computed
/// on. Sums have one fixed order: equal bits on all members and in all runs of one group. Which
/// order it is depends on the communicator.
///
/// Calls return at once where the device is asynchronous, with one exception: under `comm.staged`
/// starting a collective blocks the host until its inputs are computed and copied to host blocks,
/// and waiting for one blocks it until peers have done their part.
class TESSERA_API ProcessGroup {
 public:
  /// `progress`, which outlives it, is told of each collective; nullptr: nobody is.
  ProcessGroup(GroupSpec spec,
               std::unique_ptr<GroupBackend> backend,
               i64 rank,
               Progress* progress = nullptr);
  ~ProcessGroup();
  const std::string& name() const { return spec_->name; }
  int size() const { return spec_->size(); }
  int index() const { return spec_->index; }
  const std::vector<i64>& members() const { return spec_->members; }
  CommLane lane() const { return spec_->lane; }
  bool capturable() const;

  /// Reduces `tensor` in place.
  Work all_reduce(Stream& after, const Tensor& tensor, ReduceOp op, std::string_view name);
  /// `output` holds size() × input, in group order along dimension 0.
  Work all_gather(Stream& after, const Tensor& input, const Tensor& output, std::string_view name);
  /// `output` is this member's slice along dimension 0 of the sum over members of `input`.
  Work reduce_scatter(Stream& after,
                      const Tensor& input,
                      const Tensor& output,
                      std::string_view name);
  Work broadcast(Stream& after, const Tensor& tensor, int root, std::string_view name);
  /// One peer's part of an all_to_all or an exchange.
  struct Part {
    int peer;
    Tensor tensor;
  };
  /// One send and one receive for every member, this one included; sizes may differ.
  Work all_to_all(Stream& after,
                  const std::vector<Part>& sends,
                  const std::vector<Part>& receives,
                  std::string_view name);
  /// Sends and receives that progress together; replaces lone sends and receives.
  Work exchange(Stream& after,
                const std::vector<Part>& sends,
                const std::vector<Part>& receives,
                std::string_view name);
  /// Rows `first` to `first` + `count` of a dense tensor, as one peer's part of an exchange.
  struct Rows {
    int peer;
    const Tensor* of;
    i64 first, count;
  };
  /// The same exchange, for many parts: none has a handle of its own. The tensors may go after the
  /// call, as the Work keeps their memory.
  Work exchange_rows(Stream& after,
                     std::span<const Rows> sends,
                     std::span<const Rows> receives,
                     std::string_view name);
  /// Waits on the host until every member is here.
  void barrier(Stream& stream, std::string_view name);

  const GroupCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }

 private:
  std::shared_ptr<PendingCollective> start(Stream& after, Collective collective);
  Work transfer(CollectiveKind kind,
                Stream& after,
                const std::vector<Part>& sends,
                const std::vector<Part>& receives,
                std::string_view name);
  std::shared_ptr<const GroupSpec> spec_;
  std::unique_ptr<GroupBackend> backend_;
  i64 rank_;
  GroupCounters counters_;
  Progress* progress_;
  int place_ = -1;  // of this group in it
};

}  // namespace tessera
