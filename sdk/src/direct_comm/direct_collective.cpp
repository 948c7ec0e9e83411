// Collectives in which every member takes part: announce, wait for all, work, and stay until the
// others have done theirs.
#include <algorithm>
#include <cstring>

#include "sdk/src/direct_comm/direct_group.hpp"
#include "sdk/src/direct_comm/direct_reduce.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr i64 kLine = 64;

class CollectiveTask : public DirectTask {
 public:
  CollectiveTask(std::shared_ptr<DirectMembers> members, const Collective& collective)
      : members_(std::move(members)),
        kind_(collective.kind),
        input_(collective.input),
        output_(collective.output),
        own_(announcement_of(collective, collective.input)),
        number_(members_->next++) {
    ++members_->open;
  }
  ~CollectiveTask() override { --members_->open; }

  bool advance() override;
  std::string title() const override {
    return fmt::format(
        "group {}: {} \"{}\" #{}", members_->spec.name, collective_name(kind_), own_.name, number_);
  }
  std::string waiting_for(Until) const override;
  std::vector<i64> missing(Until) const override;

 private:
  enum class Progress { announce, work, leave };

  int size() const { return members_->size(); }
  MemberControl& member(int m) const { return *members_->control[static_cast<std::size_t>(m)]; }
  bool inlined() const { return own_.bytes <= kInlineBytes; }
  std::size_t slot() const { return number_ % kRing; }
  bool all_passed(std::atomic<u64> MemberControl::*counter, u64 number) const;
  void announce();
  void compare() const;
  void work();
  void work_inlined();
  void work_direct();
  const std::vector<const void*>& parts(i64 offset) const;
  void reduce(i64 offset, void* target, i64 elements) const;

  std::shared_ptr<DirectMembers> members_;
  CollectiveKind kind_;
  TensorArg input_, output_;
  Announcement own_;
  u64 number_;
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
  if (kind_ != CollectiveKind::barrier) {
    if (inlined()) {
      if (own_.bytes > 0) {
        std::memcpy(own.inlined[slot()], input_.address, static_cast<std::size_t>(own_.bytes));
      }
      ++members_->state.counters.inlined;
    } else if (kind_ != CollectiveKind::broadcast || own_.root == members_->spec.index) {
      own_.token = shared_.share(members_->state, input_);
    }
  }
  own.ring[slot()] = own_;
  own.posted.store(number_ + 1, std::memory_order_release);
  members_->ring();
}

void CollectiveTask::compare() const {
  for (int m = 0; m < size(); ++m) {
    const Announcement& other = member(m).ring[slot()];
    if (other.kind == own_.kind && other.name_hash == own_.name_hash && other.bytes == own_.bytes &&
        other.dtype == own_.dtype && other.op == own_.op && other.root == own_.root) {
      continue;
    }
    fail("rank {} called {}, but rank {} called {}: all members must call the same",
         members_->number_of(members_->spec.index),
         text_of(own_),
         members_->number_of(m),
         text_of(other));
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
    if (kind_ == CollectiveKind::barrier || inlined()) return true;
    progress_ = Progress::leave;
  }
  if (!all_passed(&MemberControl::done, number_)) return false;
  shared_.finish(group.state, input_, kind_ == CollectiveKind::all_reduce);
  return true;
}

// Where each member's input lies, from `offset` bytes on. Valid until the next call.
const std::vector<const void*>& CollectiveTask::parts(i64 offset) const {
  std::vector<const void*>& found = members_->sources;
  found.clear();
  for (int m = 0; m < size(); ++m) {
    const u64 token = member(m).ring[slot()].token;
    const void* whole = inlined()
                            ? member(m).inlined[slot()]
                            : members_->state.memory->at(members_->rank_of(m), token, own_.bytes);
    found.push_back(static_cast<const std::byte*>(whole) + offset);
  }
  return found;
}

// Reduces everyone's input from `offset` bytes on into one target.
void CollectiveTask::reduce(i64 offset, void* target, i64 elements) const {
  members_->targets.assign(1, target);
  reduce_elements(own_.dtype, own_.op, parts(offset), members_->targets, elements);
}

void CollectiveTask::work() {
  if (kind_ == CollectiveKind::barrier || own_.bytes == 0) return;
  if (inlined()) {
    work_inlined();
  } else {
    const PeerAccess access(members_->state, members_->spec.members);
    work_direct();
  }
}

void CollectiveTask::work_inlined() {
  const i64 index = members_->spec.index, bytes = own_.bytes;
  auto* output = output_.as<std::byte>();
  switch (kind_) {
    case CollectiveKind::all_reduce:
      return reduce(0, input_.address, input_.elements());
    case CollectiveKind::reduce_scatter:
      return reduce(index * bytes / size(), output, output_.elements());
    case CollectiveKind::all_gather:
      for (const void* part : parts(0)) {
        std::memcpy(output, part, static_cast<std::size_t>(bytes));
        output += bytes;
      }
      return;
    default:  // broadcast
      if (own_.root == index) return;
      std::memcpy(
          input_.address, member(own_.root).inlined[slot()], static_cast<std::size_t>(bytes));
  }
}

void CollectiveTask::work_direct() {
  const i64 index = members_->spec.index, bytes = own_.bytes;
  DirectMemory& memory = *members_->state.memory;
  auto* output = output_.as<std::byte>();
  switch (kind_) {
    case CollectiveKind::all_reduce: {
      // This member reduces its slice and writes the result to everyone, itself included: each
      // line is fetched once, and no second round of copies is needed.
      const i64 step = (bytes / size() + kLine - 1) / kLine * kLine;
      const i64 begin = std::min(index * step, bytes);
      const i64 end = index + 1 == size() ? bytes : std::min(begin + step, bytes);
      const std::vector<const void*>& sources = parts(begin);
      std::vector<void*>& targets = members_->targets;
      targets.clear();
      for (const void* source : sources) targets.push_back(const_cast<void*>(source));
      return reduce_elements(
          own_.dtype, own_.op, sources, targets, (end - begin) / dtype_size(own_.dtype));
    }
    case CollectiveKind::reduce_scatter:
      return reduce(index * bytes / size(), output, output_.elements());
    case CollectiveKind::all_gather: {
      const std::vector<const void*>& sources = parts(0);
      for (int i = 0; i < size(); ++i) {  // each starts at another member's memory
        const i64 m = (index + i) % size();
        const bool own = m == index;
        const void* source = own ? input_.address : sources[static_cast<std::size_t>(m)];
        copy_bytes(output + m * bytes, source, bytes);
      }
      return;
    }
    default:  // broadcast
      if (own_.root == index) return;
      copy_bytes(
          input_.address,
          memory.at(members_->rank_of(own_.root), member(own_.root).ring[slot()].token, bytes),
          bytes);
  }
}

std::vector<i64> CollectiveTask::missing(Until) const {
  const auto counter = progress_ == Progress::work ? &MemberControl::posted : &MemberControl::done;
  const u64 number = progress_ == Progress::announce ? number_ - kRing : number_;
  std::vector<i64> ranks;
  for (int m = 0; m < size(); ++m) {
    const u64 passed = (member(m).*counter).load(std::memory_order_acquire);
    if (passed <= number && m != members_->spec.index) ranks.push_back(members_->rank_of(m));
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
                  "last #{}, {}", posted - 1, text_of(member(m).ring[(posted - 1) % kRing]));
    text += fmt::format(
        "{}rank {} has not come ({})", text.empty() ? "" : "; ", members_->number_of(m), last);
  }
  return text.empty() ? "a member has not finished its part" : text;
}

}  // namespace

std::unique_ptr<DirectTask> make_collective_task(std::shared_ptr<DirectMembers> members,
                                                 const Collective& collective) {
  return std::make_unique<CollectiveTask>(std::move(members), collective);
}

}  // namespace tessera
