#include "sdk/src/direct_comm/direct_state.hpp"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/device/stood_still.hpp"
#include "tessera/error.hpp"

namespace tessera {

using namespace std::chrono_literals;

namespace {

// A peer that runs on another core answers within microseconds, sooner than this thread could
// fall asleep and wake again. Where ranks share cores, the peer may need this one.
constexpr std::chrono::nanoseconds kSpin = 50us;
// How often a wait looks for peers that have failed, died, or are late.
constexpr std::chrono::milliseconds kCheck = 2ms;
// A peer that was killed while it was writing why it fails never ends that.
constexpr std::chrono::milliseconds kWhileItSaysWhy = 250ms;

std::chrono::nanoseconds spin_of(i64 world) { return world <= usable_cpus() ? kSpin : 0ns; }

// Not FUTEX_PRIVATE: the ranks are processes. True when somebody woke this thread.
bool futex_wait(std::atomic<u32>& word, u32 value, std::chrono::nanoseconds limit) {
  const timespec timeout{.tv_sec = 0, .tv_nsec = limit.count()};
  return syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0) == 0;
}

void futex_wake(std::atomic<u32>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

Error placed(Error error, const DirectTask& task) {
  return error.add(ErrorFrame::Kind::collective, task.place.text());
}

}  // namespace

DirectState::DirectState(std::string name_,
                         const CommunicatorArguments& arguments_,
                         std::shared_ptr<DirectMemory> memory_)
    : name(std::move(name_)),
      arguments(arguments_),
      memory(std::move(memory_)),
      spin_(spin_of(arguments.world)) {
  Store& store = *arguments.store;
  const i64 made = store.add(fmt::format("{}/made/{}", name, arguments.rank), 1);
  prefix = fmt::format("{}/{}", name, made);
  own = static_cast<RankState*>(memory->reserve(4096));
  require(own != nullptr, "{}: no memory for rank {}'s state", name, number());
  const auto key = [&](i64 rank) { return fmt::format("{}/rank/{}", prefix, rank); };
  store.set(key(arguments.rank), std::to_string(memory->token(own, sizeof(RankState))));
  for (i64 rank = 0; rank < arguments.world; ++rank) {
    const u64 token = std::stoull(store.get(key(rank), arguments.init_timeout));
    ranks.push_back(static_cast<RankState*>(memory->at(rank, token, sizeof(RankState))));
  }
}

DirectState::~DirectState() {
  if (!pending_.empty()) abort(arguments.rank, "it ended with collectives under way");
  for (const auto& [bytes, block] : staging_) memory->release(block, bytes);
  u32 running = RankState::running;
  if (own != nullptr) own->phase.compare_exchange_strong(running, RankState::left);
}

void* DirectState::stage(i64& bytes) {
  // A used block has its pages already. One of up to twice the size will do.
  const auto found = staging_.lower_bound(bytes);
  if (found == staging_.end() || found->first > 2 * bytes) return memory->reserve(bytes);
  void* block = found->second;
  bytes = found->first;
  staging_.erase(found);
  return block;
}

void DirectState::unstage(void* block, i64 bytes) { staging_.emplace(bytes, block); }

void DirectState::check() const {
  if (failure_) failure_->raise();
}

void DirectState::abort(i64 origin, std::string_view reason) noexcept {
  u32 running = RankState::running;
  if (own->phase.compare_exchange_strong(running, RankState::aborting)) {
    const std::size_t length = std::min(reason.size(), sizeof own->text - 1);
    std::memcpy(own->text, reason.data(), length);
    own->text[length] = '\0';
    own->origin = origin;
    own->phase.store(RankState::aborted);
    for (std::size_t i = 0; i < ranks.size(); ++i) ring(static_cast<i64>(i));
  }
  // A peer inside our tensors leaves after one copy; one that died or was stopped inside does not.
  const Clock::time_point give_up = Clock::now() + 10s;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == own) continue;
    while (ranks[i]->busy.load() != 0 && memory->death(static_cast<i64>(i)).empty() &&
           Clock::now() < give_up) {
      sched_yield();
    }
  }
}

void DirectState::ring(i64 rank) {
  RankState& peer = *ranks[static_cast<std::size_t>(rank)];
  // Either the peer that falls asleep sees what was stored before, or this rank sees it asleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (peer.asleep.load(std::memory_order_relaxed) == 0 || peer.asleep.exchange(0) == 0) return;
  peer.bell.fetch_add(1);
  futex_wake(peer.bell);
}

bool DirectState::sleep(HostGroup::Ticket ticket, Until until) {
  const u32 heard = own->bell.load();
  own->asleep.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool moved = progress();
  if (!moved && open(ticket, until) != nullptr && futex_wait(own->bell, heard, kCheck)) {
    ++counters.woken;
  }
  own->asleep.store(0);
  return moved;
}

void DirectState::die(const Error& error, i64 origin, std::string_view reason) {
  failure_ = error;
  abort(origin, reason);
  throw Error(error);
}

void DirectState::add(std::unique_ptr<DirectTask> task) {
  pending_.push_back(std::move(task));
  progress();
}

bool DirectState::progress() {
  bool moved = false;
  for (std::size_t i = 0; i < pending_.size();) {
    DirectTask& task = *pending_[i];
    bool complete = false;
    try {
      complete = task.advance();
    } catch (const PeerGone&) {
      check_peers(task.ticket, Until::complete);
      return moved;
    } catch (const Error& error) {
      const Error own = placed(error, task);
      die(own, arguments.rank, own.what());
    }
    if (complete) {
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
    } else {
      ++i;
    }
  }
  return moved;
}

bool DirectState::advance() {
  check();
  progress();
  return !pending_.empty();
}

const DirectTask* DirectState::open(HostGroup::Ticket ticket, Until until) const {
  const auto found =
      std::ranges::lower_bound(pending_, ticket, {}, [](const auto& task) { return task->ticket; });
  if (found == pending_.end() || (*found)->ticket != ticket) return nullptr;
  return until == Until::received && (*found)->received() ? nullptr : found->get();
}

void DirectState::check_peers(HostGroup::Ticket ticket, Until until) {
  const auto fail_of = [&](i64 rank, const std::string& reason) {
    const i64 named = arguments.number(rank);
    const Error error(
        fmt::format("rank {} failed: {}", named, reason), ErrorKind::peer_failed, named);
    die(placed(error, *open(ticket, until)), rank, reason);
  };
  const u32 own_phase = own->phase.load();
  if (own_phase == RankState::aborted) fail_of(own->origin, own->text);
  const Clock::time_point give_up = Clock::now() + kWhileItSaysWhy;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankState& peer = *ranks[i];
    while (peer.phase.load() == RankState::aborting && Clock::now() < give_up) sched_yield();
    if (peer.phase.load() == RankState::aborted) fail_of(peer.origin, peer.text);
    if (peer.phase.load() != RankState::aborting) continue;
    const auto rank = static_cast<i64>(i);
    const std::string death = memory->death(rank);
    if (!death.empty()) fail_of(rank, death);  // killed while it was writing why
  }
  for (const i64 rank : open(ticket, until)->missing(until)) {
    const bool left = ranks[static_cast<std::size_t>(rank)]->phase.load() == RankState::left;
    const std::string death = left ? "it has ended" : memory->death(rank);
    if (death.empty()) continue;
    // It may have done its part just before it ended.
    progress();
    const DirectTask* waiting = open(ticket, until);
    if (waiting == nullptr) return;
    if (std::ranges::count(waiting->missing(until), rank) > 0) fail_of(rank, death);
  }
}

void DirectState::finish(HostGroup::Ticket ticket, Until until) {
  check();
  const auto done = [&] { return open(ticket, until) == nullptr; };
  progress();
  if (done()) return;

  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < spin_) {
    _mm_pause();
    progress();
    if (done()) return;
  }
  Clock::time_point checked = begin, moved = begin;
  StoodStill stood_still(begin);
  while (true) {
    if (sleep(ticket, until)) moved = Clock::now();
    if (done()) return;
    const Clock::time_point now = Clock::now();
    if (now - checked < kCheck) continue;
    moved += stood_still.look({}, now);
    checked = now;
    check_peers(ticket, until);
    const DirectTask* task = open(ticket, until);
    if (task == nullptr) return;
    if (now - moved > arguments.timeout) {
      const Error own = placed(timed_out(now - moved, task->waiting_for(until)), *task);
      die(own, arguments.rank, own.what());
    }
  }
}

PeerAccess::PeerAccess(DirectState& state, std::span<const i64> members) : own_(*state.own) {
  // Sequentially consistent on both sides: either the peer that aborts sees this rank busy, or
  // this rank sees that it aborted.
  own_.busy.store(1);
  for (const i64 member : members) {
    const u32 phase = state.ranks[static_cast<std::size_t>(member)]->phase.load();
    if (phase == RankState::running || phase == RankState::left) continue;
    own_.busy.store(0);
    throw PeerGone{};
  }
}

PeerAccess::~PeerAccess() { own_.busy.store(0, std::memory_order_release); }

}  // namespace tessera
