#include "kernel/checkpoint/together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <thread>
#include <utility>

#include "kernel/comm/error_json.hpp"
#include "kernel/launch/ask_store.hpp"
#include "kernel/launch/pulse_check.hpp"
#include "tessera/stood_still.hpp"

namespace tessera {

namespace {

// On the way between ranks: "+text", or "-" and an error.
constexpr char kDone = '+', kFailed = '-';

std::string attempt(i64 rank, const std::function<std::string()>& work) {
  try {
    return kDone + work();
  } catch (...) {
    return kFailed + error_json(error_in_flight().of_rank(rank));
  }
}

void throw_failures(const std::vector<std::string>& texts) {
  std::vector<Error> failures;
  for (const std::string& text : texts) {
    if (text[0] != kFailed) continue;
    const Error error = error_of_json(std::string_view(text).substr(1));
    const auto same = [&](const Error& other) {
      return std::string_view(error.what()) == other.what();
    };
    if (std::ranges::none_of(failures, same)) failures.push_back(error);
  }
  if (failures.empty()) return;
  if (failures.size() == 1) throw TogetherError(failures[0]);
  const auto what = [](const Error& error) { return error.what(); };
  Error all(fmt::format("{}", fmt::join(failures | std::views::transform(what), "\n")),
            failures[0].kind(),
            failures[0].rank());
  for (const Error& one : failures) {
    if (all.resource() == Resource::none) all.add(one.resource());
  }
  throw TogetherError(all);
}

}  // namespace

std::vector<std::string> Together::all(std::string_view what,
                                       const std::function<std::string()>& work,
                                       Wait wait) const {
  std::vector<std::string> texts{attempt(rank_, work)};
  if (store_ != nullptr) texts = gather(fmt::format("checkpoint/{}", what), texts[0], wait);
  const bool failed = std::ranges::any_of(texts, [](const auto& t) { return t[0] == kFailed; });
  if (failed && store_ != nullptr) {
    leave_together(*store_,
                   rank_,
                   world_,
                   "checkpoint",
                   patience_.timeout,
                   background_.value_or(std::stop_token()));
  }
  throw_failures(texts);
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

Together Together::in_background(std::stop_token stop) const {
  Together other = *this;
  other.background_ = std::move(stop);
  return other;
}

void Together::pause(std::chrono::milliseconds time) const {
  using namespace std::chrono_literals;
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    require(!background_ || !background_->stop_requested(), "the run ends before it is saved");
    std::this_thread::sleep_for(std::min(time, 10ms));
  }
}

// In the background no call waits within the store: it would outlast a run that ends.
std::vector<std::string> Together::gather(const std::string& key,
                                          const std::string& text,
                                          Wait wait) const {
  using namespace std::chrono_literals;
  if (!background_) return gather_text(*store_, rank_, world_, key, text, patience_);
  const std::string base = "background/" + key;
  const std::string round =
      fmt::format("{}/{}", base, store_->add(fmt::format("{}/calls/{}", base, rank_), 1));
  store_->set(fmt::format("{}/{}", round, rank_), text);
  std::optional<Clock::time_point> deadline;
  if (wait == Wait::patiently || !patience_.silence) deadline = Clock::now() + patience_.timeout;
  std::vector<std::string> texts;
  for (i64 peer = 0; peer < world_; ++peer) {
    texts.push_back(poll(round, key, peer, deadline));
  }
  return texts;
}

std::string Together::poll(const std::string& round,
                           const std::string& what,
                           i64 peer,
                           std::optional<Clock::time_point>& deadline) const {
  using namespace std::chrono_literals;
  constexpr auto kCall = 11s;  // what a call to the store takes at most
  std::optional<PulseCheck> pulse;
  if (patience_.silence) pulse.emplace(*store_, *patience_.silence);
  AskStore ask(*store_, patience_.silence);
  StoodStill stood_still;
  const auto forgive = [&](Clock::duration planned) {
    const Clock::duration stood = stood_still.look(planned);
    if (deadline) *deadline += stood;
  };
  auto between = 2ms, waited = 0ms;
  for (;;) {
    if (auto text = ask.get(fmt::format("{}/{}", round, peer), 0ms)) return std::move(*text);
    forgive(kCall);
    require(!deadline || Clock::now() < *deadline,
            "rank {}'s {} did not come within {:.1f} s",
            peer,
            what,
            std::chrono::duration<double>(patience_.timeout).count());
    pause(between);
    forgive(between);
    waited += between;
    if (pulse && waited > pulse->silence() / 4) {
      pulse->require_alive(peer);
      waited = 0ms;
    }
    between = std::min(between * 2, 200ms);
  }
}

std::string Together::root(std::string_view what,
                           const std::function<std::string()>& work,
                           Wait wait) const {
  return all(
      what, [&] { return rank_ == 0 ? work() : std::string(); }, wait)[0];
}

std::vector<std::string> Together::collect(std::string_view what, std::string text) const {
  if (store_ == nullptr) return {std::move(text)};
  return collect_text(*store_, rank_, world_, what, std::move(text), patience_);
}

}  // namespace tessera
