#include "sdk/src/host_device/deferred_queue.hpp"

#include <utility>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostQueued = 4096;

}  // namespace

DeferredQueue::DeferredQueue(u64 seed, int streams)
    : seed_(seed), queues_(static_cast<std::size_t>(streams)) {}

void DeferredQueue::push(Stream& stream, std::shared_ptr<const HostTask> task) {
  std::shared_ptr<void> holds = error_ ? nullptr : task->enqueue();
  enqueue({&stream, std::move(task), nullptr, nullptr, std::move(holds)});
}

void DeferredQueue::record(Stream& stream, std::shared_ptr<HostEvent> event) {
  enqueue({&stream, nullptr, std::move(event), nullptr, nullptr});
}

void DeferredQueue::wait(Stream& stream, std::shared_ptr<HostEvent> event) {
  if (!event->done) enqueue({&stream, nullptr, nullptr, std::move(event), nullptr});
}

void DeferredQueue::enqueue(Entry entry) {
  if (error_) {
    if (entry.record) entry.record->reach();
    return;
  }
  entry.number = given_++;
  queues_[static_cast<std::size_t>(entry.stream->index())].push_back(std::move(entry));
  ++queued_;
  if (queued_ > kMostQueued) {
    run_ahead(kMostQueued / 2);
  } else if (random(16) == 0) {
    run_ahead(random(8));
  }
}

void DeferredQueue::drain(Stream& stream, const Check& check) {
  rethrow();
  run_until_dry(queues_[static_cast<std::size_t>(stream.index())], check);
  if (random(2) == 0) run_ahead(random(16));
  rethrow();
}

void DeferredQueue::drain_all() {
  rethrow();
  for (const Queue& queue : queues_) run_until_dry(queue, {});
  rethrow();
}

void DeferredQueue::drain_to(const HostEvent& event, const Check& check) {
  rethrow();
  run_until(queues_[static_cast<std::size_t>(event.stream)], check, [&] { return event.done; });
  if (random(2) == 0) run_ahead(random(16));
  rethrow();
}

bool DeferredQueue::query(const HostEvent& event) {
  rethrow();
  if (!event.done) run_ahead(random(4));
  rethrow();
  return event.done;
}

void DeferredQueue::run_until_dry(const Queue& target, const Check& check) {
  run_until(target, check, [&] { return target.empty(); });
}

template <class Done>
void DeferredQueue::run_until(const Queue& target, const Check& check, Done done) {
  const auto order = static_cast<Order>(random(3));
  while (!done()) {
    if (check) check();
    require(step(&target, order), "a host stream waits for an event that nothing will reach");
  }
}

void DeferredQueue::run_ahead(u64 steps) {
  if (running_) return;
  while (steps-- > 0 && step(nullptr, Order::any)) {
  }
}

/// A queue whose first entry can run now; nullptr when there is none.
DeferredQueue::Queue* DeferredQueue::pick(const Queue* target, Order order) {
  std::vector<Queue*> ready;
  for (Queue& queue : queues_) {
    if (queue.empty() || (queue.front().wait && !queue.front().wait->done)) continue;
    if (&queue == target && order == Order::target_first) return &queue;
    ready.push_back(&queue);
  }
  if (order == Order::target_last && ready.size() > 1) {
    std::erase(ready, target);
  }
  return ready.empty() ? nullptr : ready[random(ready.size())];
}

bool DeferredQueue::step(const Queue* target, Order order) {
  Queue* queue = pick(target, order);
  if (!queue) return false;
  run_front(*queue);
  return true;
}

void DeferredQueue::run_front(Queue& queue) {
  const Entry entry = std::move(queue.front());
  queue.pop_front();
  --queued_;
  if (entry.record) entry.record->reach();
  if (!entry.task) return;
  if (entry.task->waits_for_ranks()) run_before(entry.number);
  if (error_) return;
  running_ = true;
  try {
    entry.task->run(*entry.stream);
  } catch (...) {
    error_ = std::current_exception();
    drop();
  }
  running_ = false;
}

// An earlier task never waits for a later one, so this comes to its end.
void DeferredQueue::run_before(u64 number) {
  while (true) {
    std::vector<Queue*> ready;
    for (Queue& queue : queues_) {
      if (queue.empty() || queue.front().number > number) continue;
      if (queue.front().wait && !queue.front().wait->done) continue;
      ready.push_back(&queue);
    }
    if (ready.empty()) return;
    run_front(*ready[random(ready.size())]);
  }
}

void DeferredQueue::drop() {
  for (Queue& queue : queues_) {
    for (Entry& entry : queue) {
      if (entry.record) entry.record->reach();
    }
    queue.clear();
  }
  queued_ = 0;
}

void DeferredQueue::rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

u64 DeferredQueue::random(u64 bound) {
  const Philox::Words words =
      Philox::words(seed_, {static_cast<u32>(drawn_), static_cast<u32>(drawn_ >> 32), 0, 0});
  ++drawn_;
  return words[0] % bound;
}

}  // namespace tessera
