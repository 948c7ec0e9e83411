#include "kernel/comm/control_plane/pulse.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "kernel/comm/control_plane/rank_list.hpp"
#include "tessera/device/store_route.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

constexpr std::string_view kReported = "reported";
constexpr std::string_view kLooks = "pulse/looks";      // how many ranks wanted to look
constexpr std::string_view kLooking = "pulse/looking";  // somebody does
constexpr std::string_view kFound = "pulse/found";
constexpr int kPeriods = 3;  // without a beat: no sign of life

std::string key_of(i64 rank) { return fmt::format("pulse/{}", rank); }

// What a rank's pulse says: its beats, its moves, and for how long there was none.
struct Beat {
  i64 beats = 0, moves = 0;
  double still_s = 0;
};

std::string frozen_text(const std::vector<i64>& ranks, double seconds) {
  return fmt::format(
      "{} neither {} nor {}: no sign of life for {:.1f} s (a stopped process, or a host that is "
      "gone)",
      rank_list(ranks),
      ranks.size() == 1 ? "reports" : "report",
      ranks.size() == 1 ? "moves" : "move",
      seconds);
}

std::optional<Beat> parse(const std::string& text) {
  std::istringstream in(text);
  Beat beat;
  if (in >> beat.beats >> beat.moves >> beat.still_s) return beat;
  return std::nullopt;
}

}  // namespace

std::string beat_key(i64 rank) { return key_of(rank) + "/beat"; }

bool has_pulse(Store& store, i64 rank) {
  try {
    store.get(beat_key(rank), 0ms);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    return false;
  }
}

Pulse::Pulse(
    Store& store, i64 rank, i64 world, std::chrono::milliseconds timeout, const Progress& progress)
    : store_(store),
      rank_(rank),
      world_(world),
      period_(std::clamp<std::chrono::milliseconds>(timeout / 10, 100ms, 1000ms)),
      progress_(progress),
      answered_(Clock::now().time_since_epoch().count()),
      thread_([this] { run(); }) {}

Pulse::~Pulse() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    // The thread may still wait for an answer to its last call.
    auto* routed = dynamic_cast<RoutedStore*>(&store_);
    if (store_is_silent() && routed != nullptr) routed->hang_up();
  }
  changed_.notify_all();
  thread_.join();
}

void Pulse::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (!reported_) {
      lock.unlock();
      beat();
      lock.lock();
    }
    changed_.wait_for(lock, period_, [this] { return over_; });
  }
}

void Pulse::beat() {
  const u64 moves = progress_.actions_begun();
  const auto now = Clock::now();
  if (moves != seen_.moves) seen_.moved_at = now;
  seen_.moves = moves;
  const double still = std::chrono::duration<double>(now - seen_.moved_at).count();
  try {
    store_.set(beat_key(rank_), fmt::format("{} {} {:.1f}", ++seen_.beats, moves, still));
    answered_ = Clock::now().time_since_epoch().count();
  } catch (const std::exception&) {  // the store is gone or out of reach: others notice
  }
}

void Pulse::report() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(reported_, true)) return;
  }
  if (store_is_silent()) return;
  try {
    store_.set(key_of(rank_), kReported);
  } catch (const std::exception&) {  // as above
  }
}

std::string Pulse::find(const std::string& key) const {
  try {
    return store_.get(key, 0ms);
  } catch (const std::exception&) {
    return {};
  }
}

bool Pulse::store_is_silent() const {
  const auto answered = Clock::time_point(Clock::duration(answered_.load()));
  return Clock::now() - answered > 1s + kPeriods * period_;
}

std::string Pulse::who_is_silent(ErrorKind kind) noexcept try {
  if (!blames_peer(kind)) return {};
  if (store_is_silent()) return std::string(kStoreIsSilent);
  try {
    report();
    const auto patience = 2 * kPeriods * period_ + 1s;
    if (kind == ErrorKind::peer_failed)
      store_.get(kLooking, 300ms);  // by a rank that asked this one
    const bool mine = kind == ErrorKind::peer_silent && store_.add(kLooks, 1) == 1;
    if (!mine) return store_.get(kFound, patience);
    store_.set(kLooking, "");
    std::string found = look();
    store_.set(kFound, found);
    return found;
  } catch (const std::exception&) {
    return std::string(store_is_silent() ? kStoreIsSilent : "");
  }
} catch (const std::exception&) {
  return {};
}

std::string Pulse::look() {
  std::map<i64, std::optional<Beat>> first, last;  // beats of ranks that may be the one
  for (i64 rank = 0; rank < world_; ++rank) {
    if (rank != rank_) first[rank] = parse(find(beat_key(rank)));
  }
  last = first;
  const auto begin = Clock::now();
  const auto enough = std::max<std::chrono::milliseconds>(kPeriods * period_, 1000ms);
  while (!last.empty() && Clock::now() - begin < enough) {
    std::this_thread::sleep_for(period_ / 4);
    for (auto at = last.begin(); at != last.end();) {
      const i64 rank = at->first;
      const std::optional<Beat> before = first[rank];
      at->second = parse(find(beat_key(rank)));
      const bool moves = before && at->second && at->second->moves != before->moves;
      at = moves || find(key_of(rank)) == kReported ? last.erase(at) : std::next(at);
    }
  }
  std::vector<i64> absent, frozen, still;
  for (const auto& [rank, beat] : last) {
    if (!beat) {
      absent.push_back(rank);
    } else if (first[rank] && first[rank]->beats == beat->beats) {
      frozen.push_back(rank);
    } else if (first[rank]) {  // else it has just started
      still.push_back(rank);
    }
  }
  // These come first: ranks that start wait in the store, where they record no move.
  std::vector<std::string> gone;
  if (!absent.empty()) gone.push_back(fmt::format("{} did not start", rank_list(absent)));
  if (!frozen.empty()) {
    const std::chrono::duration<double> seconds = Clock::now() - begin + period_;
    gone.push_back(frozen_text(frozen, seconds.count()));
  }
  if (!gone.empty()) return fmt::format("{}", fmt::join(gone, "; "));
  // With several, and before the first action, some may wait where they record no move.
  if (still.size() == 1 && last[still[0]]->moves > 0) {
    return fmt::format(
        "rank {} neither reports nor moves: its process lives and waits for no other rank, but "
        "made no progress for {:.1f} s (an endless loop, or a wait for something outside)",
        still[0],
        last[still[0]]->still_s);
  }
  return {};
}

}  // namespace tessera
