// Runs a grid: block after block, the threads of a block in turns.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulated_copies.hpp"
#include "emulated_gpu.hpp"
#include "fibers.hpp"
#include "tessera/base/format.hpp"
#include "thread_order.hpp"

namespace tessera::cuda::emulated {
namespace {

constexpr int kLanes = 32, kMostThreads = 1024;

struct KernelError {
  std::string text;
};

enum class Waits { no, for_block, in_shuffle, in_product, in_matrices, ended };
constexpr const char* kDoes[] = {"runs",
                                 "waits at __syncthreads",
                                 "waits in a shuffle, vote or __syncwarp",
                                 "waits in an mma",
                                 "waits in load_matrices",
                                 "has ended"};
constexpr Waits in_warp(Together what) {
  return what == Together::shuffle   ? Waits::in_shuffle
         : what == Together::product ? Waits::in_product
                                     : Waits::in_matrices;
}

/// What the lanes of a warp give each other. Two rounds: a lane may give its next value while
/// others still read the last.
struct Warp {
  alignas(8) std::byte values[2][kLanes * kLaneBytes];
  unsigned round = 0;
  Meeting meetings[2];
};

/// SplitMix64 (Steele, Lea, Flood 2014): threads are shuffled at each barrier and shuffle.
struct Random {
  std::uint64_t operator()() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t count) { return ((*this)() >> 32) * count >> 32; }
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t n = values.size(); n > 1; --n) std::swap(values[n - 1], values[below(n)]);
  }
  std::uint64_t state = 0;
};

/// The blocks that one thread of the host emulates.
class BlockRunner {
 public:
  BlockRunner() {
    const char* seed = std::getenv("TESSERA_EMULATED_SEED");
    random_.state = seed ? std::strtoull(seed, nullptr, 10) : 1;
  }
  ~BlockRunner() {
    const Unseen scope;
    fibers_.clear();
  }

  std::string run(const Grid& grid, const std::function<void()>& thread) {
    const char* mistake = std::getenv("TESSERA_EMULATED_PLANTED");
    const std::string_view named = mistake != nullptr ? mistake : "";
    planted_ = named == "wait"       ? Planted::wait
               : named == "fragment" ? Planted::fragment
                                     : Planted::none;
    if (planted_ == Planted::none && !named.empty()) {
      return fmt::format("TESSERA_EMULATED_PLANTED={}: it is \"wait\" or \"fragment\"", named);
    }
    begin_.arrive();
    std::string wrong = run_blocks(grid, thread);
    end_.leave();
    if (!wrong.empty()) leave_all();  // of threads that will never come to the end
    return wrong;
  }

  void wait(Waits what, Meeting& meeting) {
    Fiber& self = *fibers_[static_cast<std::size_t>(current_)];
    meeting.arrive();  // the last that is seen of a thread which never comes to its end
    if (Fiber* const next = after(what); next != &self) self.give_way(next);
    meeting.leave();
  }
  /// An asynchronous copy goes there.
  void require_shared(const void* to) const {
    const auto* begin = static_cast<const std::byte*>(to);
    if (begin >= shared_.data() && begin + 16 <= shared_.data() + shared_.size()) return;
    kernel_error("copy_async to what is not the block's shared memory");
  }
  Meeting& meeting() { return meetings_[round_ % 2]; }
  /// One flag for each round: a thread may come to the next while others still read the last.
  bool any(bool holds) {
    const unsigned round = round_ % 2;
    if (holds) {
      const Unseen scope;
      any_[round] = true;
    }
    wait(Waits::for_block, meetings_[round]);
    const Unseen scope;
    return any_[round];
  }
  Planted planted() const { return planted_; }
  AsyncCopies& copies() { return copies_[static_cast<std::size_t>(current_)]; }
  Warp& warp() { return warps_[static_cast<std::size_t>(current_ / kLanes)]; }
  std::byte* shared(std::size_t bytes) {
    if (bytes > shared_.size()) {
      kernel_error(fmt::format(
          "it uses {} bytes of shared memory, and was launched with {}", bytes, shared_.size()));
    }
    return shared_.data();
  }

 private:
  std::string run_blocks(const Grid& grid, const std::function<void()>& thread) {
    const Unseen scope;
    thread_ = &thread;
    threads_ = grid.threads;
    blockDim = dim3(static_cast<unsigned>(grid.threads));
    gridDim = dim3(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows));
    shared_.resize(static_cast<std::size_t>(grid.shared_bytes));
    std::vector<i64> blocks(static_cast<std::size_t>(grid.blocks * grid.rows));
    std::iota(blocks.begin(), blocks.end(), 0);
    random_.shuffle(std::span(blocks));
    for (const i64 block : blocks) {
      blockIdx = dim3(static_cast<unsigned>(block % grid.blocks),
                      static_cast<unsigned>(block / grid.blocks));
      std::string wrong = run_block();
      if (wrong.empty()) continue;
      fibers_.clear();  // what they were doing will never end
      return fmt::format("block ({}, {}): {}", blockIdx.x, blockIdx.y, wrong);
    }
    return {};
  }

  std::string run_block() {
    const auto count = static_cast<std::size_t>(threads_);
    // NaN in every floating type; a block's own, so that no two blocks use the same for TSan.
    shared_ = std::vector<std::byte>(shared_.size(), std::byte{0xff});
    while (fibers_.size() < count) fibers_.push_back(std::make_unique<Fiber>());
    failure_.reset();
    waits_.assign(count, Waits::no);
    ready_.resize(count);
    std::iota(ready_.begin(), ready_.end(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      copies_[i].clear();
      fibers_[i]->start(body_);
    }
    now_ = turn_ = ended_ = 0;
    ahead_ = kEveryWarp;
    if (Fiber* first = next()) first->resume();
    if (failure_) return fmt::format("thread {}: {}", current_, *failure_);
    return ended_ == threads_ ? "" : stuck();
  }

  /// Who goes on after the current thread, which does `what`; nullptr: nobody can.
  Fiber* after(Waits what) {
    const Unseen scope;
    waits_[static_cast<std::size_t>(current_)] = what;
    if (what == Waits::ended) ++ended_;
    return failure_ ? nullptr : next();
  }

  /// Threads change places without coming back to the block: what they return to is then what the
  /// processor expects.
  Fiber* next() {
    if (turn_ == now_) {
      ready_.erase(ready_.begin(), ready_.begin() + now_);
      release();
      if (ready_.empty()) return nullptr;
      choose();
    }
    current_ = ready_[turn_++];
    threadIdx = dim3(static_cast<unsigned>(current_), 0, 0);
    return fibers_[static_cast<std::size_t>(current_)].get();
  }

  /// Those that have a turn now, and their order.
  void choose() {
    turn_ = 0;
    now_ = ahead_ == kEveryWarp ? 0 : to_front(ahead_);
    if (now_ == 0) {
      // Half of the time one warp goes on alone until it waits for the block.
      const int any = ready_[random_.below(ready_.size())];
      ahead_ = random_.below(2) == 0 ? any / kLanes : kEveryWarp;
      now_ = to_front(ahead_);
    }
    random_.shuffle(std::span(ready_).first(static_cast<std::size_t>(now_)));
  }

  /// How many threads of the warp are ready: the first ones after this.
  std::ptrdiff_t to_front(int warp) {
    const auto of = [&](int thread) { return warp == kEveryWarp || thread / kLanes == warp; };
    return std::partition(ready_.begin(), ready_.end(), of) - ready_.begin();
  }

  /// The function of a fiber.
  Fiber* run_thread() {
    begin_.leave();
    try {
      (*thread_)();
      copies().require_none();
    } catch (const KernelError& error) {
      failure_ = error.text;
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
    end_.arrive();
    return after(Waits::ended);
  }

  void leave_all() {
    for (Meeting& meeting : meetings_) meeting.leave();
    for (Warp& warp : warps_) {
      for (Meeting& meeting : warp.meetings) meeting.leave();
    }
  }

  /// Who may go on: a block that waits as a whole, and warps that do.
  void release() {
    const auto all = [&](int begin, int end, Waits what) {
      return std::all_of(
          waits_.begin() + begin, waits_.begin() + end, [&](Waits each) { return each == what; });
    };
    const auto go_on = [&](int begin, int end) {
      for (int i = begin; i < end; ++i) {
        waits_[static_cast<std::size_t>(i)] = Waits::no;
        ready_.push_back(i);
      }
    };
    if (all(0, threads_, Waits::for_block)) {
      any_[++round_ % 2] = false;
      return go_on(0, threads_);
    }
    for (int first = 0; first < threads_; first += kLanes) {
      const Waits what = waits_[static_cast<std::size_t>(first)];
      if (what == Waits::no || what == Waits::for_block || what == Waits::ended) continue;
      if (!all(first, first + kLanes, what)) continue;
      ++warps_[static_cast<std::size_t>(first / kLanes)].round;
      go_on(first, first + kLanes);
    }
  }

  std::string stuck() const {
    const auto first = std::find_if(
        waits_.begin(), waits_.end(), [](Waits waits) { return waits != Waits::ended; });
    const auto other =
        std::find_if(waits_.begin(), waits_.end(), [&](Waits waits) { return waits != *first; });
    std::string text =
        fmt::format("thread {} {}", first - waits_.begin(), kDoes[static_cast<int>(*first)]);
    if (other != waits_.end()) {
      text +=
          fmt::format(", thread {} {}", other - waits_.begin(), kDoes[static_cast<int>(*other)]);
    }
    return text + ": not all threads reach the barrier or shuffle";
  }

  Random random_;
  Planted planted_ = Planted::none;
  int threads_ = 0, current_ = 0;
  const std::function<void()>* thread_ = nullptr;
  const Fiber::Body body_ = [this] { return run_thread(); };
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Waits> waits_;
  static constexpr int kEveryWarp = -1;
  int ended_ = 0, ahead_ = kEveryWarp;  // a warp that goes on alone
  std::vector<int> ready_;
  std::ptrdiff_t now_ = 0, turn_ = 0;  // the first now_ of these have a turn; those before had it
  std::array<Warp, kMostThreads / kLanes> warps_;
  std::array<AsyncCopies, kMostThreads> copies_;
  std::vector<std::byte> shared_;
  std::optional<std::string> failure_;
  Meeting begin_, end_, meetings_[2];
  unsigned round_ = 0;
  bool any_[2] = {};
};

/// In each thread a pointer: a library that is loaded has little room for what TLS reaches fastest.
BlockRunner& runner() {
  thread_local BlockRunner* known = nullptr;
  if (known == nullptr) {
    thread_local const auto owned = std::make_unique<BlockRunner>();
    known = owned.get();
  }
  return *known;
}

}  // namespace

void kernel_error(std::string text) { throw KernelError{std::move(text)}; }

std::string run_grid(const Grid& grid, const std::function<void()>& thread) {
  return runner().run(grid, thread);
}

void* shared_memory(std::size_t bytes) { return runner().shared(bytes); }

void block_barrier() { runner().wait(Waits::for_block, runner().meeting()); }

bool block_any(bool holds) { return runner().any(holds); }

const std::byte* warp_exchange(const void* value, std::size_t bytes, Together what) {
  Warp& warp = runner().warp();
  std::byte* values = warp.values[warp.round % 2];
  std::memcpy(values + kLaneBytes * static_cast<std::size_t>(lane()), value, bytes);
  runner().wait(in_warp(what), warp.meetings[warp.round % 2]);
  return values;
}

void copy_async(void* to, const void* from, int bytes) {
  runner().require_shared(to);
  runner().copies().start(to, from, bytes);
}
void commit_copies() { runner().copies().commit(); }
void wait_for_copies(int all_but) {
  AsyncCopies& copies = runner().copies();
  const bool first = copies.first_wait();
  if (!first || planted() != Planted::wait) copies.wait(all_but);
}

Planted planted() { return runner().planted(); }

}  // namespace tessera::cuda::emulated
