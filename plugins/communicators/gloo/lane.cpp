#include "lane.hpp"

#include <algorithm>

#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Lane::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void Lane::add(std::unique_ptr<Task> task) {
  const bool passes_on = task->passes_on();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (!passes_on) return;
    ++to_pass_on_;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Lane::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!running_ && to_pass_on_ > 0 && error_.empty()); });
    if (stop_) return;
    run_front(lock, false);
  }
}

void Lane::run_front(std::unique_lock<std::mutex>& lock, bool limited) {
  Task& task = *tasks_.front();
  running_ = true;
  lock.unlock();
  std::string error = run(task, limited);
  lock.lock();
  running_ = false;
  if (error.empty()) {
    if (task.passes_on()) --to_pass_on_;
    tasks_.pop_front();
  } else {
    error_ = std::move(error);
  }
  changed_.notify_all();
}

std::string Lane::text_of_timeout(const Task& task, std::chrono::duration<double> after) const {
  return fmt::format("rank {}, {}: timed out after {:.1f} s: {}",
                     transport_->arguments().rank,
                     task.title(),
                     after.count(),
                     task.waiting_for());
}

// Returns the error, empty when there was none.
std::string Lane::run(Task& task, bool limited) {
  const i64 rank = transport_->arguments().rank;
  std::string text;
  try {
    transport_->enter();
  } catch (const Stopped& stopped) {
    return fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
  }
  try {
    task.run(limited);
  } catch (const Stopped& stopped) {
    text = fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
    transport_->fail(stopped.failure);
  } catch (const TimedOut& timeout) {
    text = text_of_timeout(task, timeout.after);
    transport_->fail({rank, text});
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
  const auto ready = [&] {
    return !error_.empty() || tasks_.empty() || tasks_.front()->ticket > ticket || !running_;
  };
  std::string error;
  Clock::time_point since = Clock::now();
  while (error.empty()) {
    if (!changed_.wait_until(lock, since + timeout, ready)) {
      if (transport_->moved() > since) {
        since = transport_->moved();
        continue;
      }
      error = text_of_timeout(*tasks_.front(), Clock::now() - since);
    } else if (!error_.empty()) {
      error = error_;
    } else if (tasks_.empty() || tasks_.front()->ticket > ticket) {
      return;
    } else {
      run_front(lock, true);
      since = Clock::now();
    }
  }
  lock.unlock();
  transport_->fail({transport_->arguments().rank, error});
  transport_->quiesce();
  throw Error(error);
}

}  // namespace tessera::gloo_tcp
