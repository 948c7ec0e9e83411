#include "transport.hpp"

#include <algorithm>
#include <utility>

#include <gloo/transport/context.h>
#include <tessera/device/host_comm.hpp>
#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

using namespace std::chrono_literals;

namespace {

constexpr auto kToTell = 2s;  // peers of a failure
constexpr auto kToHear = 1s;  // why a connection closed

}  // namespace

Transport::Transport(const CommunicatorArguments& arguments, const BindAddress& configured)
    : arguments_(arguments),
      mail_(std::make_unique<FailureMail>(
          arguments, "gloo", [this](const RankFailure& failure) { heard(failure); })),
      mesh_(connect_all(
          arguments, mail_->prefix(), choose_address(arguments, mail_->prefix(), configured))),
      lost_(static_cast<std::size_t>(arguments.world), 0) {
  poster_ = std::make_unique<Poster>(mesh_, [this](const Request& request) { start_now(request); });
  for (i64 rank = 0; rank < arguments.world; ++rank) {
    if (rank == arguments.rank) continue;
    sentinels_.push_back(start(rank, kSentinelSlot, nullptr, 0, false));
  }
  try {
    mail_->start();
    watcher_ = std::thread([this] { watch(); });
    speaker_ = std::thread([this] { speak(); });
  } catch (...) {  // the system has no more of them
    end_threads();
    throw;
  }
}

Transport::~Transport() { end_threads(); }

void Transport::end_threads() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (speaker_.joinable()) speaker_.join();
  mail_.reset();
}

Delivery Transport::start(i64 rank, u64 slot, void* data, i64 bytes, bool sends) {
  {
    std::unique_lock lock(mutex_);
    if (failure_) {
      // After this the caller may free its memory.
      changed_.wait(lock, [&] { return !starting_; });
      throw Stopped{*failure_};
    }
  }
  Delivery delivery;
  delivery.buffer_ = mesh_.context->createUnboundBuffer(data, static_cast<std::size_t>(bytes));
  delivery.rank_ = rank;
  delivery.sends_ = sends;
  poster_->add({delivery.buffer_, static_cast<int>(rank), slot, sends});
  return delivery;
}

void Transport::start_now(const Request& request) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    starting_ = true;
  }
  bool started = true;
  try {
    if (request.sends) {
      request.buffer->send(request.rank, request.slot);
    } else {
      request.buffer->recv(request.rank, request.slot);
    }
  } catch (const std::exception&) {
    started = false;
  }
  const std::lock_guard lock(mutex_);
  starting_ = false;
  if (failure_) changed_.notify_all();
  if (!started) lose(request.rank);
}

// Nothing more comes over this connection.
void Transport::lose(i64 rank) {
  char& lost = lost_[static_cast<std::size_t>(rank)];
  if (lost != 0) return;
  lost = 1;
  for (Delivery* delivery : waiting_) {
    if (delivery->rank_ == rank) stop_wait(*delivery);
  }
}

Delivery Transport::send(i64 rank, u64 slot, const void* data, i64 bytes) {
  return start(rank, slot, const_cast<void*>(data), bytes, true);
}

Delivery Transport::receive(i64 rank, u64 slot, void* data, i64 bytes) {
  return start(rank, slot, data, bytes, false);
}

void Transport::wait(Delivery& delivery, const Waiter& waiter, bool limited) {
  Buffer& buffer = *delivery.buffer_;
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Stopped{*failure_};
    waiting_.push_back(&delivery);
    delivery.waiter_ = &waiter;
    delivery.limited_ = limited;
    delivery.since_ = Clock::now();
    lost = lost_[static_cast<std::size_t>(delivery.rank_)] != 0;
  }
  const auto wait_for_end = [&] {
    try {
      return delivery.sends_ ? buffer.waitSend(nullptr, kForever)
                             : buffer.waitRecv(nullptr, kForever);
    } catch (const std::exception&) {  // the connection closed before the first byte
      return false;
    }
  };
  bool complete = !lost && wait_for_end();
  std::unique_lock lock(mutex_);
  if (!complete && !delivery.timed_out_ && !failure_) {
    // A connection that has closed brings nothing more, but all may have come before. Gloo has no
    // call that asks, and its own deadline would close the connections to all peers, which would
    // blame this rank. So this waits again, until the watcher stops it.
    delivery.lost_since_ = Clock::now();
    lock.unlock();
    complete = wait_for_end();
    lock.lock();
  }
  std::erase(waiting_, &delivery);
  if (!complete && delivery.timed_out_ && !failure_) {
    throw timed_out(Clock::now() - delivery.since_, waiter.waiting_for());
  }
  if (!complete) throw Stopped{cause(lock, delivery)};
  moved_ = Clock::now().time_since_epoch().count();
}

// A rank that fails tells why before it closes its connections, but the news take another way.
RankFailure Transport::cause(std::unique_lock<std::mutex>& lock, const Delivery& delivery) {
  const Clock::time_point until = delivery.lost_since_.value_or(Clock::now()) + kToHear;
  changed_.wait_until(lock, until, [&] { return failure_.has_value(); });
  if (failure_) return *failure_;
  return {delivery.rank_, "its connection closed"};
}

void Transport::stop_wait(Delivery& delivery) {
  if (delivery.sends_) {
    delivery.buffer_->abortWaitSend();
  } else {
    delivery.buffer_->abortWaitRecv();
  }
}

void Transport::fail(const RankFailure& failure, bool told) noexcept {
  if (!begin_failure(failure, told)) return;
  {
    // Peers that cannot be told still see the connections close.
    std::unique_lock lock(mutex_);
    const bool heard = changed_.wait_for(lock, kToTell, [&] { return told_; });
    lock.unlock();
    if (!heard) mail_->hang_up();
  }
  close_all();
}

// False when there was one before.
bool Transport::begin_failure(const RankFailure& failure, bool told) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = failure;
    told_ = told;
    for (Delivery* delivery : waiting_) stop_wait(*delivery);
  }
  changed_.notify_all();
  return true;
}

// Whoever closes a connection holds its lock and waits until Gloo's thread has come round once
// more; were that thread starting something then, it would wait for the same lock.
void Transport::close_all() noexcept {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !starting_; });
  }
  mesh_.close();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void Transport::tell_peers(const RankFailure& failure) noexcept {
  mail_->tell(failure);
  {
    const std::lock_guard lock(mutex_);
    told_ = true;
  }
  changed_.notify_all();
}

void Transport::quiesce() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ && busy_ == 0 && !starting_; });
}

void Transport::enter() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Stopped{*failure_};
  ++busy_;
}

void Transport::leave() noexcept {
  const std::lock_guard lock(mutex_);
  --busy_;
  if (failure_) changed_.notify_all();
}

void Transport::heard(const RankFailure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
  }
  fail(failure, true);
}

void Transport::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    changed_.wait_for(lock, 50ms, [&] { return ending_ || failure_.has_value(); });
    look_at_connections();
    look_at_clock();
  }
}

// Does what takes the store, which may be out of reach: a clock must not wait for that.
void Transport::speak() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    changed_.wait_for(lock, 50ms, [&] { return ending_ || failure_.has_value(); });
    ask_peers(lock);
  }
  if (!failure_ || told_) return;
  const RankFailure failure = *failure_;
  lock.unlock();
  tell_peers(failure);
}

// Gloo tells of a closed connection only to deliveries that have not begun. So one receive for each
// connection never begins, and is looked at from time to time.
void Transport::look_at_connections() {
  for (Delivery& sentinel : sentinels_) {
    try {
      sentinel.buffer_->abortWaitRecv();  // so that the destructor does not wait
      sentinel.buffer_->waitRecv(nullptr, kForever);
    } catch (const std::exception&) {
      lose(sentinel.rank_);
    }
  }
}

void Transport::look_at_clock() {
  const Clock::time_point now = Clock::now();
  const Clock::duration stood_still = stood_still_.look({}, now);
  for (Delivery* delivery : waiting_) {
    if (delivery->lost_since_) {
      *delivery->lost_since_ += stood_still;
      if (now - *delivery->lost_since_ > kToHear) stop_wait(*delivery);
      continue;
    }
    const auto since = std::max(delivery->since_, moved()) + stood_still;
    if (stood_still > Clock::duration(0)) delivery->since_ = std::min(since, now);
    if (!delivery->limited_ || delivery->timed_out_) continue;
    if (now - since <= arguments_.timeout) continue;
    delivery->timed_out_ = true;
    stop_wait(*delivery);
  }
}

// Members whose calls differ wait for messages that never come. A member that waits long puts its
// call into the store and compares it with its peer's; that finds nothing where the peer is only
// late.
void Transport::ask_peers(std::unique_lock<std::mutex>& lock) {
  std::vector<std::pair<i64, Statement>> asked;
  for (Delivery* delivery : waiting_) {
    if (Clock::now() - delivery->since_ < delivery->ask_after_) continue;
    delivery->ask_after_ *= 2;
    asked.emplace_back(delivery->rank_, delivery->waiter_->statement(*delivery));
  }
  if (asked.empty() || failure_) return;
  lock.unlock();
  for (const auto& [rank, own] : asked) {
    const std::string said = fmt::format("{} {}", own.number, own.text);
    std::string heard;
    try {
      arguments_.store->set(mail_->prefix() + own.key, said);
      heard = arguments_.store->get(mail_->prefix() + own.peer_key, 0ms);
    } catch (const std::exception&) {
      continue;  // the peer has nothing to say yet
    }
    const std::size_t space = heard.find(' ');
    if (heard == said || heard.substr(0, space) != std::to_string(own.number)) continue;
    const RankFailure failure{
        -1,
        fmt::format("rank {} called {}, but rank {} called {}: all must call the same",
                    arguments_.rank,
                    own.text,
                    rank,
                    heard.substr(space + 1))};
    if (begin_failure(failure, false)) {
      tell_peers(failure);
      close_all();
    }
    break;
  }
  lock.lock();
}

}  // namespace tessera::gloo_tcp
