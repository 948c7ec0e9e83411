#include "kernel/comm/control_plane/control_plane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>

#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/comm/control_plane/rank_list.hpp"
#include "kernel/comm/error_json.hpp"

namespace tessera {

namespace {

using std::chrono::milliseconds;

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
  if (failures.size() == 1) throw SharedError(failures[0]);
  const auto what = [](const Error& error) { return error.what(); };
  Error all(fmt::format("{}", fmt::join(failures | std::views::transform(what), "\n")),
            failures[0].kind(),
            failures[0].rank());
  for (const Error& one : failures) {
    if (all.resource() == Resource::none) all.add(one.resource());
  }
  throw SharedError(all);
}

}  // namespace

ControlPlane ControlPlane::in_background(std::stop_token stop) const {
  ControlPlane other = *this;
  other.background_ = std::move(stop);
  return other;
}

RankWait ControlPlane::wait(Wait wait) const {
  const bool endless = background_ && wait == Wait::for_a_step && limits_.silence;
  using Deadline = RankWait::Deadline;
  return {*store_, limits_, background_, endless ? Deadline::none : Deadline::timeout};
}

// Each rank counts its own calls; as all ranks make the same calls, the count tells them apart.
std::string ControlPlane::round_of(std::string_view what) const {
  const std::string base = fmt::format("{}/{}", background_ ? "background" : "plane", what);
  return fmt::format("{}/{}", base, store_->add(fmt::format("{}/calls/{}", base, rank_), 1));
}

std::vector<std::string> ControlPlane::gather(std::string_view what,
                                              std::string_view text,
                                              Wait wait) const {
  if (store_ == nullptr) return {std::string(text)};
  const std::string round = round_of(what);
  store_->set(fmt::format("{}/{}", round, rank_), text);
  RankWait others = this->wait(wait);
  std::vector<std::string> texts;
  for (i64 peer = 0; peer < world_; ++peer) {
    texts.push_back(others.get(fmt::format("{}/{}", round, peer), peer, what));
  }
  return texts;
}

std::vector<std::string> ControlPlane::all(std::string_view what,
                                           const std::function<std::string()>& work,
                                           Wait wait) const {
  std::vector<std::string> texts = gather(what, attempt(rank_, work), wait);
  if (std::ranges::any_of(texts, [](const auto& t) { return t[0] == kFailed; })) leave();
  throw_failures(texts);
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

std::string ControlPlane::root(std::string_view what,
                               const std::function<std::string()>& work,
                               Wait wait) const {
  return all(
      what, [&] { return rank_ == 0 ? work() : std::string(); }, wait)[0];
}

void ControlPlane::decide(std::string_view what, const std::function<void()>& decide) const {
  if (store_ == nullptr) return decide();
  const std::string place = round_of(what) + "/verdict";
  std::exception_ptr error;
  std::string verdict;  // rank 0's error, if any
  if (rank_ == 0) {
    try {
      decide();
    } catch (...) {
      error = std::current_exception();
      verdict = error_json(error_in_flight().of_rank(0));
    }
    store_->set(place, verdict);
  } else {
    WaitLimits longer = limits_;
    longer.timeout *= 2;
    RankWait first(*store_, longer, background_);
    verdict = first.get(place, 0, fmt::format("verdict ({})", what));
  }
  if (verdict.empty()) return;
  leave();
  if (error) std::rethrow_exception(error);
  error_of_json(verdict).raise();
}

void ControlPlane::same(const std::vector<Fact>& facts, std::string_view advice) const {
  if (store_ == nullptr || world_ == 1) return;
  const std::string round = round_of("facts");
  store_->set(fmt::format("{}/{}", round, rank_), pack_facts(facts));
  decide("agree", [&] { compare(round, advice); });
}

// On rank 0. The error names ranks that have not started: they have neither facts nor a pulse.
void ControlPlane::compare(const std::string& round, std::string_view advice) const {
  std::vector<std::string> texts;
  try {
    RankWait others = wait();
    for (i64 peer = 0; peer < world_; ++peer) {
      texts.push_back(others.get(fmt::format("{}/{}", round, peer), peer, "facts about itself"));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    std::vector<i64> absent;
    RankWait look = wait();
    for (i64 peer = 0; peer < world_; ++peer) {
      const bool told = look.look(fmt::format("{}/{}", round, peer), milliseconds(0)).has_value();
      if (!told && !has_pulse(*store_, peer)) absent.push_back(peer);
    }
    if (absent.empty()) throw;
    const std::string who = fmt::format("{} did not start", rank_list(absent));
    Error(fmt::format("{} within {:.1f} s (comm.init_timeout_s)",
                      who,
                      std::chrono::duration<double>(limits_.timeout).count()),
          ErrorKind::peer_silent)
        .add(ErrorFrame::Kind::told, who)
        .raise();
  }
  const std::vector<Fact> mine = unpack_facts(texts[0]);
  for (i64 peer = 1; peer < world_; ++peer) {
    const std::string& text = texts[static_cast<std::size_t>(peer)];
    if (text == texts[0]) continue;
    fail_config("{}", describe_difference(mine, 0, unpack_facts(text), peer, advice));
  }
}

std::vector<std::string> ControlPlane::collect(std::string_view what, std::string text) const {
  constexpr std::size_t kPiece = 4 << 20;
  if (store_ == nullptr) return {std::move(text)};
  const std::string round = round_of(what);
  if (rank_ > 0) {
    std::size_t pieces = 0;
    for (std::size_t at = 0; at < text.size(); at += kPiece) {
      store_->set(fmt::format("{}/{}/{}", round, rank_, pieces++),
                  std::string_view(text).substr(at, kPiece));
    }
    store_->set(fmt::format("{}/{}", round, rank_), fmt::format("{}", pieces));
    return {};
  }
  std::vector<std::string> texts = {std::move(text)};
  for (i64 peer = 1; peer < world_; ++peer) {
    const std::string from = fmt::format("{}/{}", round, peer);
    RankWait other = wait();
    const std::size_t pieces = std::stoul(other.get(from, peer, what));
    std::string& whole = texts.emplace_back();
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::string name = fmt::format("{}/{}", from, piece);
      whole += other.get(name, peer, what);
      store_->set(name, "");
    }
  }
  return texts;
}

void ControlPlane::pause(milliseconds time) const { RankWait::pause(time, background_); }

void ControlPlane::leave() const noexcept try {
  constexpr milliseconds kMost{5000}, kBetween{10};
  if (store_ == nullptr) return;
  const std::string base = background_ ? "background/leaving" : "plane/leaving";
  // `round` counts calls, so that the key can be used again.
  const i64 round = store_->add(fmt::format("{}/calls/{}", base, rank_), 1);
  if (store_->add(base, 1) == round * world_) store_->set(fmt::format("{}/{}", base, round), "");
  if (rank_ != 0) return;
  const auto end = std::chrono::steady_clock::now() + std::min(limits_.timeout, kMost);
  RankWait others = wait();
  while (std::chrono::steady_clock::now() < end) {
    if (others.look(fmt::format("{}/{}", base, round), milliseconds(0))) return;
    others.pause(kBetween);
  }
} catch (const std::exception&) {
  // Somebody is gone already; the failure that all know of says more.
}

}  // namespace tessera
