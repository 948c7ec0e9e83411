#include "kernel/launch/agree.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <string>
#include <thread>

#include "kernel/comm/error_json.hpp"
#include "kernel/launch/ask_store.hpp"
#include "kernel/launch/pulse.hpp"
#include "kernel/launch/pulse_check.hpp"
#include "kernel/launch/rank_list.hpp"
#include "tessera/error.hpp"
#include "tessera/stood_still.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Each field as "length:bytes", so that any text may stand in it.
std::string pack(const std::vector<Fact>& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    text += fmt::format("{}:{}{}:{}", name.size(), name, value.size(), value);
  }
  return text;
}

std::string take_field(std::string_view& text) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const auto start = static_cast<std::size_t>(end - text.data()) + 1;
  require(error == std::errc() && start <= text.size() && size <= text.size() - start,
          "the facts of a rank are garbled; do all ranks run the same version of Tessera?");
  std::string field(text.substr(start, size));
  text.remove_prefix(start + size);
  return field;
}

std::vector<Fact> unpack(std::string_view text) {
  std::vector<Fact> facts;
  while (!text.empty()) {
    std::string name = take_field(text);
    facts.emplace_back(std::move(name), take_field(text));
  }
  return facts;
}

// Each rank counts its own calls; as all ranks make the same calls, the count tells them apart.
std::string round_of(Store& store, i64 rank, std::string_view key) {
  const std::string base = fmt::format("launch/{}", key);
  return fmt::format("{}/{}", base, store.add(fmt::format("{}/calls/{}", base, rank), 1));
}

// Waits for a rank's key until `timeout` after `begin`, as long as the rank and the store give
// signs of life. Where this process stood still, `begin` moves.
std::string wait_alive(Store& store,
                       const std::string& key,
                       i64 rank,
                       Clock::time_point& begin,
                       const Patience& patience) {
  constexpr milliseconds kSlice{1000};  // where ranks have no pulses
  std::optional<PulseCheck> pulse;
  if (patience.silence) pulse.emplace(store, *patience.silence);
  AskStore ask(store, patience.silence);
  StoodStill stood_still;
  for (;;) {
    // What is there already is taken, however late it is.
    const auto left = std::chrono::ceil<milliseconds>(begin + patience.timeout - Clock::now());
    const milliseconds most = pulse ? pulse->silence() / 4 : kSlice;
    const milliseconds slice = std::clamp(left, milliseconds(0), most);
    const std::optional<std::string> text = ask.get(key, slice);
    begin += stood_still.look(slice);
    if (text) return *text;
    if (pulse) pulse->require_alive(rank);
    if (Clock::now() - begin >= patience.timeout) {
      throw Error(fmt::format("nothing came within {:.1f} s",
                              std::chrono::duration<double>(Clock::now() - begin).count()),
                  ErrorKind::peer_silent);
    }
  }
}

std::string wait_for(Store& store,
                     const std::string& key,
                     i64 rank,
                     std::string_view what,
                     const Patience& patience,
                     Clock::time_point& begin) {
  try {
    return wait_alive(store, key, rank, begin, patience);
  } catch (const Error&) {
    rethrow_with(ErrorFrame::Kind::note, fmt::format("rank {}'s {} did not come", rank, what));
  }
}

std::string wait_for(Store& store,
                     const std::string& key,
                     i64 rank,
                     std::string_view what,
                     const Patience& patience) {
  Clock::time_point begin = Clock::now();
  return wait_for(store, key, rank, what, patience, begin);
}

// Waits for all ranks together no longer than for one.
std::vector<std::string> collect(Store& store,
                                 const std::string& round,
                                 i64 world,
                                 std::string_view what,
                                 const Patience& patience) {
  Clock::time_point begin = Clock::now();
  std::vector<std::string> texts;
  for (i64 peer = 0; peer < world; ++peer) {
    const std::string key = fmt::format("{}/{}", round, peer);
    texts.push_back(wait_for(store, key, peer, what, patience, begin));
  }
  return texts;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// `text` from shortly before the place where it differs from `other`.
std::string excerpt(std::string_view text, std::string_view other) {
  constexpr std::size_t kBefore = 40;
  constexpr std::size_t kShown = 160;
  const auto [here, there] = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  const auto place = static_cast<std::size_t>(here - text.begin());
  const std::size_t from = std::max(text.size(), other.size()) <= kShown || place <= kBefore
                               ? std::size_t{0}
                               : place - kBefore;
  const std::string_view shown = text.substr(from, kShown);
  return fmt::format(
      "\"{}{}{}\"", from > 0 ? "..." : "", shown, from + shown.size() < text.size() ? "..." : "");
}

std::string line_or_end(const std::vector<std::string_view>& lines,
                        const std::vector<std::string_view>& others,
                        std::size_t index) {
  if (index >= lines.size()) return "missing";
  return excerpt(lines[index], index < others.size() ? others[index] : std::string_view());
}

// Describes the first difference of two texts that differ.
std::string first_difference(std::string_view mine,
                             i64 my_rank,
                             std::string_view theirs,
                             i64 their_rank) {
  const auto a = lines_of(mine);
  const auto b = lines_of(theirs);
  if (a.size() <= 1 && b.size() <= 1) {
    return fmt::format("{} on rank {}, {} on rank {}",
                       excerpt(mine, theirs),
                       my_rank,
                       excerpt(theirs, mine),
                       their_rank);
  }
  std::size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  return fmt::format("line {} is {} on rank {}, {} on rank {}",
                     line + 1,
                     line_or_end(a, b, line),
                     my_rank,
                     line_or_end(b, a, line),
                     their_rank);
}

// The error names ranks that have not started: they have neither facts nor a pulse.
std::vector<std::string> collect_facts(Store& store,
                                       const std::string& round,
                                       i64 world,
                                       milliseconds timeout) {
  try {
    return collect(store, round, world, "facts about itself", timeout);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    std::vector<i64> absent;
    for (i64 peer = 0; peer < world; ++peer) {
      const std::string key = fmt::format("{}/{}", round, peer);
      const bool told = AskStore(store, std::nullopt).get(key, milliseconds(0)).has_value();
      if (!told && !has_pulse(store, peer)) absent.push_back(peer);
    }
    if (absent.empty()) throw;
    const std::string who = fmt::format("{} did not start", rank_list(absent));
    Error(fmt::format("{} within {:.1f} s (comm.init_timeout_s)",
                      who,
                      std::chrono::duration<double>(timeout).count()),
          ErrorKind::peer_silent)
        .add(ErrorFrame::Kind::told, who)
        .raise();
  }
}

// On rank 0: throws unless all ranks' facts are its own.
void compare_facts(Store& store,
                   const std::string& round,
                   i64 world,
                   milliseconds timeout,
                   std::string_view advice) {
  const auto texts = collect_facts(store, round, world, timeout);
  const std::vector<Fact> mine = unpack(texts[0]);
  for (i64 peer = 1; peer < world; ++peer) {
    const std::string& text = texts[static_cast<std::size_t>(peer)];
    if (text == texts[0]) continue;
    fail_config("{}", describe_difference(mine, 0, unpack(text), peer, advice));
  }
}

}  // namespace

std::string describe_difference(const std::vector<Fact>& mine,
                                i64 my_rank,
                                const std::vector<Fact>& theirs,
                                i64 their_rank,
                                std::string_view advice) {
  const auto name = [](const std::vector<Fact>& facts, std::size_t i) -> std::string_view {
    if (i < facts.size()) return facts[i].first;
    return "nothing more";
  };
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const std::string_view my_name = name(mine, i), their_name = name(theirs, i);
    if (my_name != their_name) {
      return fmt::format(
          "ranks compare different things: rank {} {}, rank {} {}; do all run the same version of "
          "Tessera?",
          my_rank,
          my_name,
          their_rank,
          their_name);
    }
    if (mine[i].second != theirs[i].second) {
      return fmt::format("ranks disagree on {}: {}; {}",
                         my_name,
                         first_difference(mine[i].second, my_rank, theirs[i].second, their_rank),
                         advice);
    }
  }
  return {};
}

std::vector<std::string> gather_text(Store& store,
                                     i64 rank,
                                     i64 world,
                                     std::string_view key,
                                     std::string_view text,
                                     const Patience& patience) {
  const std::string round = round_of(store, rank, key);
  store.set(fmt::format("{}/{}", round, rank), text);
  return collect(store, round, world, key, patience);
}

std::vector<std::string> collect_text(Store& store,
                                      i64 rank,
                                      i64 world,
                                      std::string_view key,
                                      std::string text,
                                      const Patience& patience) {
  constexpr std::size_t kPiece = 4 << 20;
  const std::string round = round_of(store, rank, key);
  if (rank > 0) {
    std::size_t pieces = 0;
    for (std::size_t at = 0; at < text.size(); at += kPiece) {
      store.set(fmt::format("{}/{}/{}", round, rank, pieces++),
                std::string_view(text).substr(at, kPiece));
    }
    store.set(fmt::format("{}/{}", round, rank), fmt::format("{}", pieces));
    return {};
  }
  std::vector<std::string> texts = {std::move(text)};
  for (i64 peer = 1; peer < world; ++peer) {
    const std::string from = fmt::format("{}/{}", round, peer);
    const std::size_t pieces = std::stoul(wait_for(store, from, peer, key, patience));
    std::string& whole = texts.emplace_back();
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::string name = fmt::format("{}/{}", from, piece);
      whole += store.get(name, patience.timeout);
      store.set(name, "");
    }
  }
  return texts;
}

void leave_together(Store& store,
                    i64 rank,
                    i64 world,
                    std::string_view key,
                    milliseconds timeout,
                    const std::stop_token& stop) {
  constexpr milliseconds kMost{5000}, kBetween{10};
  try {
    const std::string base = fmt::format("launch/{}/leaving", key);
    // `round` counts calls, so that a key can be used again.
    const i64 round = store.add(fmt::format("{}/calls/{}", base, rank), 1);
    if (store.add(base, 1) == round * world) store.set(fmt::format("{}/{}", base, round), "");
    if (rank != 0) return;
    const auto end = std::chrono::steady_clock::now() + std::min(timeout, kMost);
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
      try {
        store.get(fmt::format("{}/{}", base, round), milliseconds(0));
        return;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::peer_silent) throw;
      }
      std::this_thread::sleep_for(kBetween);
    }
  } catch (const Error&) {
    // Somebody is gone already; the failure that all know of says more.
  }
}

void decide_on_first(Store& store,
                     i64 rank,
                     i64 world,
                     std::string_view key,
                     const std::function<void()>& decide,
                     milliseconds timeout) {
  const std::string place = round_of(store, rank, key) + "/verdict";
  std::exception_ptr error;
  std::string verdict;  // rank 0's error, if any
  if (rank == 0) {
    try {
      decide();
    } catch (...) {
      error = std::current_exception();
      verdict = error_json(error_in_flight().of_rank(0));
    }
    store.set(place, verdict);
  } else {
    verdict = wait_for(store, place, 0, fmt::format("verdict ({})", key), timeout);
  }
  if (verdict.empty()) return;
  leave_together(store, rank, world, key, timeout);
  if (error) std::rethrow_exception(error);
  error_of_json(verdict).raise();
}

void agree(Store& store,
           i64 rank,
           i64 world,
           const std::vector<Fact>& facts,
           milliseconds timeout,
           std::string_view advice) {
  if (world == 1) return;
  const std::string round = round_of(store, rank, "facts");
  store.set(fmt::format("{}/{}", round, rank), pack(facts));
  // Rank 0 may itself have begun to wait that much later; its verdict names who is missing.
  const milliseconds patience = rank == 0 ? timeout : 2 * timeout;
  const auto compare = [&] { compare_facts(store, round, world, timeout, advice); };
  decide_on_first(store, rank, world, "agree", compare, patience);
}

}  // namespace tessera
