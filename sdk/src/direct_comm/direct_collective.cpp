// Collectives in which every member takes part: announce, wait for all, work, and stay until the
// others have done theirs.
#include <algorithm>
#include <cstring>
#include <optional>

#include "sdk/src/direct_comm/direct_group.hpp"
#include "sdk/src/direct_comm/direct_reduce.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

class CollectiveTask : public DirectTask {
 public:
  CollectiveTask(std::shared_ptr<DirectMembers> members, const HostGroup::Posted& posted)
      : DirectTask(posted),
        members_(std::move(members)),
        call_(CollectiveCall::of(posted.collective)),
        input_(posted.collective.input),
        output_(posted.collective.output),
        number_(*posted.place.number) {
    ++members_->open;
  }
  ~CollectiveTask() override { --members_->open; }

  bool advance() override;
  std::string waiting_for(Until) const override;
  std::vector<i64> missing(Until) const override;

 private:
  enum class Progress { announce, work, leave };

  int size() const { return members_->spec.size(); }
  int index() const { return members_->spec.index; }
  bool is(CollectiveKind kind) const { return call_.kind == kind; }
  MemberControl& member(int m) const { return *members_->control[static_cast<std::size_t>(m)]; }
  bool inlined() const { return call_.bytes <= kInlineBytes; }
  std::size_t slot() const { return number_ % kRing; }
  bool all_passed(std::atomic<u64> MemberControl::*counter, u64 number) const;
  void announce();
  void compare() const;
  void work();
  const std::byte* source(int m) const;
  const std::vector<const void*>& parts(i64 offset) const;
  void reduce(i64 offset, void* target, i64 elements) const;
  void reduce_for_all() const;

  std::shared_ptr<DirectMembers> members_;
  const CollectiveCall call_;
  const TensorArg input_, output_;
  const u64 number_;
  Progress progress_ = Progress::announce;
  SharedInput shared_;
};

// Has every member counted beyond `number`? Acquires what it did before.
bool CollectiveTask::all_passed(std::atomic<u64> MemberControl::*counter, u64 number) const {
  return std::all_of(members_->control.begin(), members_->control.end(), [&](auto* control) {
    return (control->*counter).load(std::memory_order_acquire) > number;
  });
}

void CollectiveTask::announce() {
  MemberControl& own = members_->own();
  u64 token = 0;
  if (!is(CollectiveKind::barrier)) {
    if (inlined()) {
      if (call_.bytes > 0) {
        std::memcpy(own.inlined[slot()], input_.address, static_cast<std::size_t>(call_.bytes));
      }
      ++members_->state.counters.inlined;
    } else if (!is(CollectiveKind::broadcast) || call_.root == index()) {
      token = shared_.share(members_->state, input_);
    }
  }
  own.ring[slot()] = {token, call_};
  own.posted.store(number_ + 1, std::memory_order_release);
  members_->ring();
}

void CollectiveTask::compare() const {
  for (int m = 0; m < size(); ++m) {
    const CollectiveCall& other = member(m).ring[slot()].call;
    if (other == call_) continue;
    fail("rank {} called {}, but rank {} called {}: all members must call the same",
         members_->number_of(index()),
         call_.text(),
         members_->number_of(m),
         other.text());
  }
}

bool CollectiveTask::advance() {
  DirectMembers& group = *members_;
  if (progress_ == Progress::announce) {
    // The slot is free when nobody is still in the collective that had it before.
    const bool in_turn = group.own().posted.load(std::memory_order_relaxed) == number_;
    if (!in_turn || (number_ >= kRing && !all_passed(&MemberControl::done, number_ - kRing))) {
      return false;
    }
    announce();
    progress_ = Progress::work;
  }
  if (progress_ == Progress::work) {
    if (group.worked != number_ || !all_passed(&MemberControl::posted, number_)) return false;
    compare();
    work();
    ++group.worked;
    group.own().done.store(number_ + 1, std::memory_order_release);
    group.ring();
    if (is(CollectiveKind::barrier) || inlined()) return true;
    progress_ = Progress::leave;
  }
  if (!all_passed(&MemberControl::done, number_)) return false;
  shared_.finish(group.state, input_, is(CollectiveKind::all_reduce));
  return true;
}

// Where a member's input lies.
const std::byte* CollectiveTask::source(int m) const {
  if (inlined()) return member(m).inlined[slot()];
  const u64 token = member(m).ring[slot()].token;
  const i64 rank = members_->spec.rank_of(m);
  return static_cast<const std::byte*>(members_->state.memory->at(rank, token, call_.bytes));
}

// Everyone's input, from `offset` bytes on. Valid until the next call.
const std::vector<const void*>& CollectiveTask::parts(i64 offset) const {
  std::vector<const void*>& found = members_->sources;
  found.clear();
  for (int m = 0; m < size(); ++m) found.push_back(source(m) + offset);
  return found;
}

// Reduces everyone's input from `offset` bytes on into one target.
void CollectiveTask::reduce(i64 offset, void* target, i64 elements) const {
  members_->targets.assign(1, target);
  reduce_elements(call_.dtype, call_.op, parts(offset), members_->targets, elements);
}

// This member reduces its slice and writes the result to everyone, itself included: each line is
// fetched once, and no second round of copies is needed.
void CollectiveTask::reduce_for_all() const {
  const ByteRange own = slice_of(call_.bytes, size(), index());
  const std::vector<const void*>& sources = parts(own.begin);
  std::vector<void*>& targets = members_->targets;
  targets.clear();
  for (const void* part : sources) targets.push_back(const_cast<void*>(part));
  reduce_elements(call_.dtype, call_.op, sources, targets, own.bytes / dtype_size(call_.dtype));
}

void CollectiveTask::work() {
  const i64 bytes = call_.bytes;
  if (is(CollectiveKind::barrier) || bytes == 0) return;
  std::optional<PeerAccess> access;
  if (!inlined()) access.emplace(members_->state, members_->spec.members);
  switch (call_.kind) {
    case CollectiveKind::all_reduce:
      return inlined() ? reduce(0, input_.address, input_.elements()) : reduce_for_all();
    case CollectiveKind::reduce_scatter:
      return reduce(index() * bytes / size(), output_.address, output_.elements());
    case CollectiveKind::all_gather:
      for (int i = 0; i < size(); ++i) {  // each starts at another member's memory
        const int m = (index() + i) % size();
        const void* part = m == index() ? input_.address : source(m);
        copy_bytes(output_.as<std::byte>() + m * bytes, part, bytes);
      }
      return;
    default:  // broadcast
      if (call_.root != index()) copy_bytes(input_.address, source(call_.root), bytes);
  }
}

std::vector<i64> CollectiveTask::missing(Until) const {
  const auto counter = progress_ == Progress::work ? &MemberControl::posted : &MemberControl::done;
  const u64 number = progress_ == Progress::announce ? number_ - kRing : number_;
  std::vector<i64> ranks;
  for (int m = 0; m < size(); ++m) {
    const u64 passed = (member(m).*counter).load(std::memory_order_acquire);
    if (passed <= number && m != index()) ranks.push_back(members_->spec.rank_of(m));
  }
  return ranks;
}

std::string CollectiveTask::waiting_for(Until) const {
  std::string text;
  for (int m = 0; m < size(); ++m) {
    const u64 posted = member(m).posted.load(std::memory_order_acquire);
    if (posted > number_) continue;
    const std::string last =
        posted == 0
            ? "none yet"
            : fmt::format(
                  "last #{}, {}", posted - 1, member(m).ring[(posted - 1) % kRing].call.text());
    text += fmt::format(
        "{}rank {} has not come ({})", text.empty() ? "" : "; ", members_->number_of(m), last);
  }
  return text.empty() ? "a member has not finished its part" : text;
}

}  // namespace

std::unique_ptr<DirectTask> make_collective_task(std::shared_ptr<DirectMembers> members,
                                                 const HostGroup::Posted& posted) {
  return std::make_unique<CollectiveTask>(std::move(members), posted);
}

}  // namespace tessera
