#include "task_queue.hpp"

#include <algorithm>

#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

namespace {

std::string text_of_timeout(const Transport& transport,
                            const Task& task,
                            std::chrono::duration<double> after) {
  return fmt::format("rank {}, {}: timed out after {:.1f} s: {}",
                     transport.arguments().rank,
                     task.title(),
                     after.count(),
                     task.waiting_for());
}

}  // namespace

std::string attempt(Transport& transport, const Task& task, const std::function<void()>& body) {
  const i64 rank = transport.arguments().rank;
  std::string text;
  try {
    transport.enter();
  } catch (const Stopped& stopped) {
    return fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
  }
  try {
    body();
  } catch (const Stopped& stopped) {
    text = fmt::format("rank {}, {}: {}", rank, task.title(), stopped.failure.text());
    transport.fail(stopped.failure);
  } catch (const TimedOut& timeout) {
    text = text_of_timeout(transport, task, timeout.after);
    transport.fail({rank, text});
  } catch (const std::exception& error) {
    text = fmt::format("rank {}, {}: {}", rank, task.title(), error.what());
    transport.fail({rank, text});
  }
  transport.leave();
  return text;
}

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool TaskQueue::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void TaskQueue::add(std::unique_ptr<Task> task) {
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

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!running_ && to_pass_on_ > 0 && error_.empty()); });
    if (stop_) return;
    run_front(lock, false);
  }
}

void TaskQueue::run_front(std::unique_lock<std::mutex>& lock, bool limited) {
  Task& task = *tasks_.front();
  running_ = true;
  lock.unlock();
  std::string error = attempt(*transport_, task, [&] { task.run(limited); });
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

bool TaskQueue::holds(u64 ticket) const {
  return std::ranges::any_of(tasks_, [&](const auto& task) { return task->ticket == ticket; });
}

void TaskQueue::wait(u64 ticket) {
  const auto timeout = transport_->arguments().timeout;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !error_.empty() || !running_ || !holds(ticket); };
  std::string error;
  Clock::time_point since = Clock::now();
  while (error.empty()) {
    if (!changed_.wait_until(lock, since + timeout, ready)) {
      if (transport_->moved() > since) {
        since = transport_->moved();
        continue;
      }
      error = text_of_timeout(*transport_, *tasks_.front(), Clock::now() - since);
    } else if (!holds(ticket)) {
      return;
    } else if (!error_.empty()) {
      error = error_;
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
