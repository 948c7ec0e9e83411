#include "sdk/src/shared/progress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

template <std::size_t bytes>
using FixedText = std::array<char, bytes>;  // ends with a zero

template <std::size_t bytes>
void write_text(FixedText<bytes>& to, std::string_view text) noexcept {
  *std::ranges::copy(cut_text(text, bytes - 1), to.begin()).out = 0;
}

template <std::size_t bytes>
std::string_view read_text(const FixedText<bytes>& from) {
  return {from.data(), static_cast<std::size_t>(std::ranges::find(from, 0) - from.begin())};
}

struct ActionEntry {
  FixedText<48> what;
  FixedText<64> name;
  i64 microbatch;
};

struct CollectiveEntry {
  CollectiveKind kind;
  CallName name;
  TensorArg input;
  i64 bytes;
};

// The newest entries. Its zeros are an empty one.
template <class Entry, std::size_t shown>
class EntryRing {
 public:
  template <class F>
  void add(const F& fill) noexcept {
    fill(entries_[count_ % entries_.size()]);
    std::atomic_ref(count_).store(count_ + 1, std::memory_order_release);
  }
  void clear() noexcept { std::atomic_ref(count_).store(0, std::memory_order_release); }
  u64 count() const noexcept {
    return std::atomic_ref(const_cast<u64&>(count_)).load(std::memory_order_acquire);
  }
  /// Calls `tell(number, entry)`, the newest last.
  template <class F>
  void each(const F& tell) const {
    const u64 end = count();
    for (u64 i = end - std::min<u64>(end, shown); i < end; ++i) {
      tell(i, entries_[i % entries_.size()]);
    }
  }

 private:
  u64 count_;
  std::array<Entry, shown + 1> entries_;
};

struct GroupEntry {
  bool taken;
  FixedText<64> name;  // empty: no group had this place
  EntryRing<CollectiveEntry, 32> started;
};

static_assert(std::atomic_ref<u64>::is_always_lock_free, "a lock would be of one process");

}  // namespace

struct Progress::Memory {
  i64 step;
  EntryRing<ActionEntry, 8> actions;
  std::array<GroupEntry, 16> group;
};

std::size_t Progress::bytes() noexcept {
  static_assert(std::is_trivially_copyable_v<Memory>, "it is what the bytes say");
  return sizeof(Memory);
}

Progress::Progress() : own_(std::make_unique<Memory>()), memory_(own_.get()) {}
Progress::Progress(std::byte* memory) : memory_(reinterpret_cast<Memory*>(memory)) {}
Progress::~Progress() = default;

void Progress::begin_step(i64 step) noexcept { std::atomic_ref(memory_->step).store(step); }

void Progress::begin_action(std::string_view what, std::string_view name, i64 microbatch) noexcept {
  memory_->actions.add([&](ActionEntry& action) {
    write_text(action.what, what);
    write_text(action.name, name);
    action.microbatch = microbatch;
  });
}

int Progress::add_group(std::string_view name) {
  FixedText<64> written;
  write_text(written, name);
  auto& groups = memory_->group;
  const auto free = [&](std::string_view of) {
    return std::ranges::find_if(groups, [&](const GroupEntry& group) {
      return !group.taken && read_text(group.name) == of;
    });
  };
  auto place = free(read_text(written));
  if (place == groups.end()) place = free("");
  if (place == groups.end()) place = std::ranges::find(groups, false, &GroupEntry::taken);
  require(place != groups.end(), "a rank has no place for group {}", name);
  place->started.clear();  // before it has another name
  place->name = written;
  place->taken = true;
  return static_cast<int>(place - groups.begin());
}

void Progress::release_group(int group) noexcept {
  memory_->group[static_cast<std::size_t>(group)].taken = false;
}

void Progress::begin_collective(int group,
                                CollectiveKind kind,
                                const CallName& name,
                                const TensorArg& input,
                                i64 bytes) noexcept {
  memory_->group[static_cast<std::size_t>(group)].started.add([&](CollectiveEntry& started) {
    started = {kind, name, input, bytes};
  });
}

i64 Progress::step() const noexcept { return std::atomic_ref(memory_->step).load(); }

u64 Progress::actions_begun() const noexcept { return memory_->actions.count(); }

std::vector<std::string> Progress::actions() const {
  std::vector<std::string> texts;
  memory_->actions.each([&](u64, const ActionEntry& action) {
    const std::string_view name = read_text(action.name);
    std::string text = fmt::format("{}{}{}", read_text(action.what), name.empty() ? "" : " ", name);
    if (action.microbatch >= 0) text += fmt::format(", microbatch {}", action.microbatch);
    texts.push_back(std::move(text));
  });
  return texts;
}

std::vector<std::string> Progress::collectives() const {
  std::vector<std::string> texts;
  for (const GroupEntry& of : memory_->group) {
    of.started.each([&](u64 number, const CollectiveEntry& started) {
      TensorArg input = started.input;
      input.rank = std::clamp(input.rank, 0, kMaxRank);
      const std::string what =
          input ? fmt::format("{} [{}]",
                              dtype_name(input.dtype),
                              fmt::join(input.shape, input.shape + input.rank, ", "))
                : fmt::format("{} bytes", started.bytes);
      texts.push_back(fmt::format("{} #{} {} {} {}",
                                  read_text(of.name),
                                  number,
                                  collective_name(started.kind),
                                  started.name.view(),
                                  what));
    });
  }
  return texts;
}

}  // namespace tessera
