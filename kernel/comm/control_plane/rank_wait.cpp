#include "kernel/comm/control_plane/rank_wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

RankWait::RankWait(Store& store,
                   const WaitLimits& limits,
                   std::optional<std::stop_token> stop,
                   Deadline deadline)
    : store_(store), limits_(limits), stop_(std::move(stop)), deadline_(deadline) {
  if (limits.silence) pulse_.emplace(store, *limits.silence);
}

std::string RankWait::get(const std::string& key, i64 rank, std::string_view what) try {
  return wait_for(key, rank);
} catch (const Error&) {
  if (stop_ && stop_->stop_requested()) throw;  // no rank is to blame
  rethrow_with(ErrorFrame::Kind::note, fmt::format("rank {}'s {} did not come", rank, what));
}

// How long a call may wait in the store.
milliseconds RankWait::slice() const {
  constexpr milliseconds kSlice{1000};  // where ranks have no pulses
  if (stop_) return 0ms;
  const auto left = std::chrono::ceil<milliseconds>(begin_ + limits_.timeout - Clock::now());
  return std::clamp(left, 0ms, pulse_ ? pulse_->silence() / 4 : kSlice);
}

std::string RankWait::wait_for(const std::string& key, i64 rank) {
  milliseconds between = 2ms, unchecked = 0ms;
  for (;;) {
    // What is there already is taken, however late it is.
    const milliseconds wait = slice();
    std::optional<std::string> text = look(key, wait);
    begin_ += stood_still_.look(wait);
    if (text) return std::move(*text);
    if (stop_) {
      pause(between);
      begin_ += stood_still_.look(between);
      unchecked += between;
      between = std::min(between * 2, 200ms);
    }
    if (pulse_ && (!stop_ || unchecked > pulse_->silence() / 4)) {
      pulse_->require_alive(rank);
      begin_ += stood_still_.look();
      unchecked = 0ms;
    }
    const auto waited = Clock::now() - begin_;
    if (deadline_ == Deadline::timeout && waited >= limits_.timeout) {
      throw Error(fmt::format("nothing came within {:.1f} s",
                              std::chrono::duration<double>(waited).count()),
                  ErrorKind::peer_silent);
    }
  }
}

std::optional<std::string> RankWait::look(const std::string& key, milliseconds wait) {
  constexpr milliseconds kAnswer{5000};    // beyond the time of a call
  constexpr milliseconds kSilence{10000};  // where ranks have no pulses
  const auto asked = Clock::now();
  try {
    std::string text = store_.get(key, wait);
    answered_ = Clock::now();
    unanswered_ = 0;
    return text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    const auto now = Clock::now();
    if (now - asked < wait + kAnswer) {
      answered_ = now;
      unanswered_ = 0;
    } else if (++unanswered_ > 1 && now - answered_ > limits_.silence.value_or(kSilence)) {
      throw;
    }
    return std::nullopt;
  }
}

void RankWait::pause(milliseconds time, const std::optional<std::stop_token>& stop) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    require(!stop || !stop->stop_requested(), "the run ends before it is saved");
    std::this_thread::sleep_for(std::min(time, 10ms));
  }
}

}  // namespace tessera
