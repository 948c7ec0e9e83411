// Collectives in which every member takes part, as messages between each two. Sums are formed in
// group order by one member for each element, or by all from the same inputs.
#include <algorithm>
#include <cstring>

#include <tessera/device/collective_call.hpp>
#include <tessera/device/host_reduce.hpp>
#include <tessera/error.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

namespace {

using Use = Members::Use;
using Part = ByteRange;
constexpr i64 kSegment = 512 << 10;  // reduced while the next one comes
// A member sends up to this much in one step, rather than less in two steps.
constexpr i64 kFewBytes = 192 << 10;

// Every member gets (all_reduce: reduces) everything in one step.
bool in_one_step(i64 bytes, int members) {
  return members == 2 || bytes * (members - 1) <= kFewBytes;
}

class CollectiveTask : public Task {
 public:
  CollectiveTask(std::shared_ptr<const Members> members, const HostGroup::Posted& posted);
  void run(bool limited) override;
  bool passes_on() const override;
  std::string waiting_for() const override;
  Statement statement(const Delivery& delivery) const override;

 private:
  int size() const { return members_->spec.size(); }
  int index() const { return members_->spec.index; }
  bool is(CollectiveKind kind) const { return collective_.kind == kind; }
  bool one_way() const { return in_one_step(bytes_, size()); }
  bool root() const { return collective_.root == index(); }
  std::byte* input(i64 offset) const { return collective_.input.as<std::byte>() + offset; }

  Part reduced(int member) const;  ///< what a member reduces of everyone's input
  Part share(int member) const;    ///< what a member but the root gets from it and passes on
  static std::vector<Part> segments(Part whole);
  void send(int member, Use use, Part part);
  /// `part` names what comes, as its sender does.
  void receive(std::vector<Delivery>& into, int member, Use use, Part part, void* data);
  void wait(Delivery& delivery, const char* reason);
  void wait_all(std::vector<Delivery>& deliveries, const char* reason);

  void start_reduction();
  void start_gather();
  void start_broadcast();
  void start_barrier();
  void reduce();
  void pass_on(Part part, int but);

  std::shared_ptr<const Members> members_;
  const Collective collective_;
  const u64 number_;
  const i64 bytes_;
  const u64 call_;  // hash of what all must agree on
  ScratchPool::Block scratch_;
  std::vector<Delivery> sent_, parts_, results_;
  bool limited_ = false;
  std::atomic<i64> waits_for_{-1};
  std::atomic<const char*> why_{""};
};

// Starts all that needs no other member's data, on the rank's thread.
CollectiveTask::CollectiveTask(std::shared_ptr<const Members> members,
                               const HostGroup::Posted& posted)
    : Task(posted),
      members_(std::move(members)),
      collective_(posted.collective),
      number_(*posted.place.number),
      bytes_(collective_.input.bytes()),
      call_(CollectiveCall::of(collective_).hash()) {
  switch (collective_.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      start_reduction();
      break;
    case CollectiveKind::all_gather:
      start_gather();
      break;
    case CollectiveKind::broadcast:
      start_broadcast();
      break;
    default:
      start_barrier();
  }
}

bool CollectiveTask::passes_on() const {
  return !one_way() &&
         (is(CollectiveKind::all_reduce) || (is(CollectiveKind::broadcast) && !root()));
}

Part CollectiveTask::reduced(int member) const {
  const i64 p = size();
  if (is(CollectiveKind::reduce_scatter)) return {member * (bytes_ / p), bytes_ / p};
  if (one_way()) return {0, bytes_};
  return slice_of(bytes_, p, member);
}

Part CollectiveTask::share(int member) const {
  if (one_way()) return {0, bytes_};
  const int turn = (member - collective_.root + size()) % size() - 1;
  return slice_of(bytes_, size() - 1, turn);
}

// Never empty, so that members meet in any case.
std::vector<Part> CollectiveTask::segments(Part whole) {
  std::vector<Part> cut;
  const i64 end = whole.begin + whole.bytes;
  for (i64 begin = whole.begin; begin < end || cut.empty(); begin += kSegment) {
    cut.push_back({begin, std::min(end - begin, kSegment)});
  }
  return cut;
}

void CollectiveTask::send(int member, Use use, Part part) {
  const u64 slot = members_->slot(use, number_, part.begin, part.bytes, call_);
  const i64 rank = members_->spec.rank_of(member);
  sent_.push_back(members_->transport->send(rank, slot, input(part.begin), part.bytes));
}

void CollectiveTask::receive(
    std::vector<Delivery>& into, int member, Use use, Part part, void* data) {
  const u64 slot = members_->slot(use, number_, part.begin, part.bytes, call_);
  const i64 rank = members_->spec.rank_of(member);
  into.push_back(members_->transport->receive(rank, slot, data, part.bytes));
}

void CollectiveTask::wait_all(std::vector<Delivery>& deliveries, const char* reason) {
  for (Delivery& delivery : deliveries) wait(delivery, reason);
  deliveries.clear();
}

void CollectiveTask::wait(Delivery& delivery, const char* reason) {
  why_ = reason;
  waits_for_ = delivery.rank();
  members_->transport->wait(delivery, *this, limited_);
}

std::string CollectiveTask::waiting_for() const {
  return fmt::format("rank {} {}", waits_for_.load(), why_.load());
}

Statement CollectiveTask::statement(const Delivery& delivery) const {
  const auto& ranks = members_->spec.members;
  const auto peer = std::find(ranks.begin(), ranks.end(), delivery.rank()) - ranks.begin();
  return {members_->key("all", index()),
          members_->key("all", static_cast<int>(peer)),
          number_,
          fmt::format("{}, in {}", CollectiveCall::of(collective_).text(), members_->spec.name)};
}

void CollectiveTask::start_reduction() {
  const std::vector<Part> mine = segments(reduced(index()));
  scratch_ = members_->transport->scratch().take(reduced(index()).bytes * members_->others());
  std::byte* room = scratch_.data();
  std::size_t most = mine.size();
  for (int member = 0; member < size(); ++member) {
    most = std::max(most, segments(reduced(member)).size());
  }
  for (std::size_t s = 0; s < most; ++s) {
    for (int k = 0; k < members_->others() && s < mine.size(); ++k) {
      receive(parts_, members_->other(k), Use::part, mine[s], room);
      room += mine[s].bytes;
    }
    // A member sends its result when it has this member's values, so results may come in place.
    for (int k = 0; k < members_->others(); ++k) {
      const std::vector<Part> theirs = segments(reduced(members_->other(k)));
      if (s >= theirs.size()) continue;
      send(members_->other(k), Use::part, theirs[s]);
      if (!passes_on()) continue;
      receive(results_, members_->other(k), Use::result, theirs[s], input(theirs[s].begin));
    }
  }
}

void CollectiveTask::start_gather() {
  auto* output = collective_.output.as<std::byte>();
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    receive(parts_, member, Use::part, {0, bytes_}, output + member * bytes_);
    send(member, Use::part, {0, bytes_});
  }
}

// If there are many bytes, the root sends each once, and the others pass their shares on.
void CollectiveTask::start_broadcast() {
  const Part mine = share(index());
  if (!root()) receive(parts_, collective_.root, Use::part, mine, input(mine.begin));
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    const Part part = share(member);
    if (root()) {
      send(member, Use::part, part);
    } else if (passes_on() && member != collective_.root) {
      receive(results_, member, Use::result, part, input(part.begin));
    }
  }
}

void CollectiveTask::start_barrier() {
  for (int k = 0; k < members_->others(); ++k) {
    receive(parts_, members_->other(k), Use::part, {}, nullptr);
    send(members_->other(k), Use::part, {});
  }
}

void CollectiveTask::run(bool limited) {
  limited_ = limited;
  if (is(CollectiveKind::all_gather) && bytes_ > 0) {
    std::byte* place = collective_.output.as<std::byte>() + index() * bytes_;
    if (place != input(0)) std::memcpy(place, input(0), static_cast<std::size_t>(bytes_));
  }
  if (is(CollectiveKind::all_reduce) || is(CollectiveKind::reduce_scatter)) reduce();
  wait_all(parts_, "has not come");
  if (passes_on() && is(CollectiveKind::broadcast)) pass_on(share(index()), collective_.root);
  wait_all(results_, "has not sent its result");
  wait_all(sent_, "has not taken its part");
}

void CollectiveTask::pass_on(Part part, int but) {
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    if (member != but) send(member, Use::result, part);
  }
}

// Segment by segment, while the next ones are under way.
void CollectiveTask::reduce() {
  const bool all = is(CollectiveKind::all_reduce);
  const DType dtype = collective_.input.dtype;
  const i64 first = reduced(index()).begin;
  const std::byte* room = scratch_.data();
  std::size_t next = 0;
  std::vector<const void*> sources(static_cast<std::size_t>(size()));
  for (const Part part : segments(reduced(index()))) {
    for (int k = 0; k < members_->others(); ++k, ++next) {
      wait(parts_[next], "has not come");
      // The target holds what others still have to get, unless they get other parts.
      if (all && one_way()) wait(sent_[next], "has not taken its part");
      sources[static_cast<std::size_t>(members_->other(k))] = room;
      room += part.bytes;
    }
    sources[static_cast<std::size_t>(index())] = input(part.begin);
    void* target =
        all ? input(part.begin) : collective_.output.as<std::byte>() + (part.begin - first);
    reduce_elements(dtype, collective_.op, sources, {target}, part.bytes / dtype_size(dtype));
    if (passes_on()) pass_on(part, index());
  }
  if (all && one_way()) sent_.clear();
  parts_.clear();
}

}  // namespace

i64 scratch_bytes(const Collective& collective, int members) {
  const i64 bytes = collective.input.bytes();
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return (members - 1) *
             (in_one_step(bytes, members) ? bytes : slice_of(bytes, members, 0).bytes);
    case CollectiveKind::reduce_scatter:
      return (members - 1) * (bytes / members);
    default:
      return 0;
  }
}

std::unique_ptr<Task> make_collective_task(std::shared_ptr<const Members> members,
                                           const HostGroup::Posted& posted) {
  return std::make_unique<CollectiveTask>(std::move(members), posted);
}

}  // namespace tessera::gloo_tcp
