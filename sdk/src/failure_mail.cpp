#include "tessera/device/failure_mail.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "tessera/device/store_route.hpp"

namespace tessera {

namespace {

constexpr std::string_view kEnd = "end";

// The failure that a store reports by ending a wait early.
RankFailure failure_of_store(const Error& error) {
  const bool died = error.kind() == ErrorKind::peer_failed && error.rank() != Error::kNoRank;
  if (died) return {error.rank(), "it died: its connection to the store closed"};
  return {Error::kNoRank, error.what()};
}

}  // namespace

Error RankFailure::error(i64 own) const {
  if (rank == Error::kNoRank) return Error(reason);
  const ErrorKind kind = rank == own ? ErrorKind::own : ErrorKind::peer_failed;
  return Error(fmt::format("rank {} failed: {}", rank, reason), kind, rank);
}

FailureMail::FailureMail(const CommunicatorArguments& arguments,
                         std::string_view name,
                         std::function<void(const RankFailure&)> heard)
    : arguments_(arguments), heard_(std::move(heard)) {
  const i64 made = arguments_.store->add(fmt::format("{}/made/{}", name, arguments_.rank), 1);
  prefix_ = fmt::format("{}/{}", name, made);
}

FailureMail::~FailureMail() {
  if (!listener_.joinable()) return;
  try {
    arguments_.store->set(key(arguments_.rank), kEnd);
  } catch (const std::exception&) {
    hang_up();  // the listener's wait may not have noticed
  }
  listener_.join();
}

void FailureMail::start() {
  listener_ = std::thread([this] { listen(); });
}

// Where a rank waits for news.
std::string FailureMail::key(i64 rank) const { return fmt::format("{}/failed/{}", prefix_, rank); }

void FailureMail::tell(const RankFailure& failure) noexcept {
  try {
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      if (rank == arguments_.rank) continue;
      arguments_.store->set(key(rank), fmt::format("{} {}", failure.rank, failure.reason));
    }
  } catch (const std::exception&) {  // there is no store any more
  }
}

void FailureMail::hang_up() noexcept {
  if (auto* routed = dynamic_cast<RoutedStore*>(arguments_.store)) routed->hang_up();
}

void FailureMail::listen() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::hours kPatience(24);
  RankFailure failure;
  for (;;) {
    const Clock::time_point begin = Clock::now();
    try {
      const std::string news = arguments_.store->get(key(arguments_.rank), kPatience);
      if (news == kEnd) return;
      const std::size_t space = news.find(' ');
      failure = {std::stoll(news.substr(0, space)), news.substr(space + 1)};
      break;
    } catch (const Error& error) {
      if (Clock::now() - begin >= kPatience) continue;
      failure = failure_of_store(error);
      break;
    } catch (const std::exception& error) {
      failure = {Error::kNoRank, error.what()};
      break;
    }
  }
  heard_(failure);
}

}  // namespace tessera
