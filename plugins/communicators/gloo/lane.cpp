#include "lane.hpp"

#include <algorithm>

#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

std::byte* Scratch::reserve(i64 bytes) {
  if (bytes > bytes_) {
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    bytes_ = bytes;
  }
  return memory_.get();
}

Lane::Lane(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)), thread_([this] { run(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Lane::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void Lane::add(std::unique_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Lane::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!tasks_.empty() && error_.empty()); });
    if (stop_) return;
    Task& task = *tasks_.front();
    lock.unlock();
    std::string error = run_front(task);
    lock.lock();
    if (error.empty()) {
      tasks_.pop_front();
    } else {
      error_ = std::move(error);
    }
    changed_.notify_all();
  }
}

// Returns the error, empty when there was none.
std::string Lane::run_front(Task& task) {
  const i64 rank = transport_->arguments().rank;
  std::string text;
  try {
    transport_->enter();
  } catch (const Stopped& stopped) {
    return fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
  }
  try {
    task.run(scratch_);
  } catch (const Stopped& stopped) {
    text = fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
    transport_->fail(stopped.failure);
  } catch (const std::exception& error) {
    text = fmt::format("rank {}, {}: {}", rank, task.title(), error.what());
    transport_->fail({rank, text});
  }
  transport_->leave();
  return text;
}

void Lane::wait(u64 ticket) {
  const auto timeout = transport_->arguments().timeout;
  std::unique_lock lock(mutex_);
  const auto done = [&] {
    return !error_.empty() || tasks_.empty() || tasks_.front()->ticket > ticket;
  };
  Clock::time_point since = Clock::now();
  while (!changed_.wait_until(lock, since + timeout, done)) {
    if (transport_->moved() > since) {
      since = transport_->moved();
      continue;
    }
    const Task& task = *tasks_.front();
    const i64 rank = transport_->arguments().rank;
    const std::string text =
        fmt::format("rank {}, {}: timed out after {:.1f} s: {}",
                    rank,
                    task.title(),
                    std::chrono::duration<double>(Clock::now() - since).count(),
                    task.waiting_for());
    lock.unlock();
    transport_->fail({rank, text});
    transport_->quiesce();
    throw Error(text);
  }
  if (error_.empty()) return;
  const std::string text = error_;
  lock.unlock();
  transport_->quiesce();
  throw Error(text);
}

}  // namespace tessera::gloo_tcp
