#include "task_queue.hpp"

#include <algorithm>

#include <tessera/device/stood_still.hpp>
#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

namespace {

Error placed(Error error, const CollectivePlace& place) {
  return error.add(ErrorFrame::Kind::collective, place.text());
}

}  // namespace

std::optional<Error> attempt(Transport& transport,
                             const CollectivePlace& place,
                             const std::function<void()>& body) {
  const i64 rank = transport.arguments().rank;
  std::optional<Error> error;
  try {
    transport.enter();
  } catch (const Stopped& stopped) {
    return placed(stopped.failure.error(rank), place);
  }
  try {
    body();
  } catch (const Stopped& stopped) {
    error = placed(stopped.failure.error(rank), place);
    transport.fail(stopped.failure);
  } catch (const std::exception&) {
    error = placed(error_in_flight(), place);
    transport.fail({rank, error->what()});
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
    changed_.wait(lock, [&] { return stop_ || (!running_ && to_pass_on_ > 0 && !error_); });
    if (stop_) return;
    run_front(lock, false);
  }
}

void TaskQueue::run_front(std::unique_lock<std::mutex>& lock, bool limited) {
  Task& task = *tasks_.front();
  running_ = true;
  lock.unlock();
  std::optional<Error> error = attempt(*transport_, task.place, [&] { task.run(limited); });
  lock.lock();
  running_ = false;
  if (!error) {
    if (task.passes_on()) --to_pass_on_;
    tasks_.pop_front();
  } else {
    error_ = std::move(error);
  }
  changed_.notify_all();
}

bool TaskQueue::holds(HostGroup::Ticket ticket) const {
  return std::ranges::any_of(tasks_, [&](const auto& task) { return task->ticket == ticket; });
}

void TaskQueue::wait(HostGroup::Ticket ticket) {
  constexpr std::chrono::milliseconds kLook{500};
  const auto timeout = transport_->arguments().timeout;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return error_ || !running_ || !holds(ticket); };
  std::optional<Error> error;
  Clock::time_point since = Clock::now();
  StoodStill stood_still(since);
  while (!error) {
    if (!changed_.wait_until(lock, std::min(Clock::now() + kLook, since + timeout), ready)) {
      const Clock::time_point now = Clock::now();
      since = std::max(since + stood_still.look(kLook, now), transport_->moved());
      if (now - since < timeout) continue;
      const Task& task = *tasks_.front();
      error = placed(timed_out(now - since, task.waiting_for()), task.place);
    } else if (!holds(ticket)) {
      return;
    } else if (error_) {
      error = error_;
    } else {
      run_front(lock, true);
      since = Clock::now();
      stood_still = StoodStill(since);
    }
  }
  lock.unlock();
  transport_->fail({transport_->arguments().rank, error->what()});
  transport_->quiesce();
  throw Error(*error);
}

}  // namespace tessera::gloo_tcp
