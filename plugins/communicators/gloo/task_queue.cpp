#include "task_queue.hpp"

#include <algorithm>

#include <tessera/error.hpp>
#include <tessera/peer_error.hpp>
#include <tessera/stood_still.hpp>

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

TaskError stopped_error(const Transport& transport, const Task& task, const Failure& failure) {
  const i64 rank = transport.arguments().rank;
  return {fmt::format("rank {}, {}: {}", rank, task.title(), failure.text()),
          failure.rank < 0 || failure.rank == rank ? 1 : kPeerFailed};
}

}  // namespace

TaskError attempt(Transport& transport, const Task& task, const std::function<void()>& body) {
  const i64 rank = transport.arguments().rank;
  TaskError error;
  try {
    transport.enter();
  } catch (const Stopped& stopped) {
    return stopped_error(transport, task, stopped.failure);
  }
  try {
    body();
  } catch (const Stopped& stopped) {
    error = stopped_error(transport, task, stopped.failure);
    transport.fail(stopped.failure);
  } catch (const TimedOut& timeout) {
    error = {text_of_timeout(transport, task, timeout.after), kPeerSilent};
    transport.fail({rank, error.text});
  } catch (const std::exception& thrown) {
    error.text = fmt::format("rank {}, {}: {}", rank, task.title(), thrown.what());
    transport.fail({rank, error.text});
  }
  transport.leave();
  return error;
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
    changed_.wait(lock,
                  [&] { return stop_ || (!running_ && to_pass_on_ > 0 && error_.text.empty()); });
    if (stop_) return;
    run_front(lock, false);
  }
}

void TaskQueue::run_front(std::unique_lock<std::mutex>& lock, bool limited) {
  Task& task = *tasks_.front();
  running_ = true;
  lock.unlock();
  TaskError error = attempt(*transport_, task, [&] { task.run(limited); });
  lock.lock();
  running_ = false;
  if (error.text.empty()) {
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
  constexpr std::chrono::milliseconds kLook{500};
  const auto timeout = transport_->arguments().timeout;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !error_.text.empty() || !running_ || !holds(ticket); };
  TaskError error;
  Clock::time_point since = Clock::now();
  StoodStill stood_still(since);
  while (error.text.empty()) {
    if (!changed_.wait_until(lock, std::min(Clock::now() + kLook, since + timeout), ready)) {
      const Clock::time_point now = Clock::now();
      since = std::max(since + stood_still.look(kLook, now), transport_->moved());
      if (now - since < timeout) continue;
      error = {text_of_timeout(*transport_, *tasks_.front(), now - since), kPeerSilent};
    } else if (!holds(ticket)) {
      return;
    } else if (!error_.text.empty()) {
      error = error_;
    } else {
      run_front(lock, true);
      since = Clock::now();
      stood_still = StoodStill(since);
    }
  }
  lock.unlock();
  transport_->fail({transport_->arguments().rank, error.text});
  transport_->quiesce();
  throw Error(error.text, error.code);
}

}  // namespace tessera::gloo_tcp
