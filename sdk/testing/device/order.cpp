// Streams, events, waits of the host.
#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "bench.hpp"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

void check_order_of_tasks(DeviceBench& bench) {
  Device& device = bench.device();
  constexpr int kTasks = 200;
  // Shared with the tasks: a broken device may run them later.
  std::shared_ptr<std::vector<int>> ran[2];
  for (std::shared_ptr<std::vector<int>>& order : ran) order = std::make_shared<std::vector<int>>();
  for (int i = 0; i < kTasks; ++i) {
    device.launch_host(bench.compute(), "task", [ran = ran[0], i] { ran->push_back(i); });
    device.launch_host(bench.comm(), "task", [ran = ran[1], i] { ran->push_back(i); });
  }
  device.synchronize(bench.compute());
  device.synchronize(bench.comm());
  for (const auto& tasks : ran) {
    const std::vector<int> order = *tasks;
    bool sorted = order.size() == kTasks;
    for (std::size_t i = 0; i < order.size(); ++i) sorted &= order[i] == static_cast<int>(i);
    bench.expect(sorted,
                 "{} of {} host tasks of one stream ran before its synchronize, or in another "
                 "order than they were launched in",
                 order.size(),
                 kTasks);
  }
  const Tensor x = bench.floats(), sum = bench.floats();
  bench.fill(bench.compute(), sum, 0);
  for (int i = 1; i <= 50; ++i) {
    bench.fill(bench.compute(), x, i);
    bench.add(bench.compute(), sum, x, sum);
  }
  bench.expect_values("a chain of operations on one stream", sum, 1275);
}

/// Both streams work on their own memory at one time.
void check_independence(DeviceBench& bench) {
  const Tensor a = bench.floats(), b = bench.floats(bench.comm());
  const Tensor one = bench.floats(), two = bench.floats(bench.comm());
  bench.fill(bench.compute(), a, 0);
  bench.fill(bench.comm(), b, 0);
  for (int i = 0; i < 50; ++i) {
    bench.fill(bench.compute(), one, 1);
    bench.fill(bench.comm(), two, 2);
    bench.add(bench.compute(), a, one, a);
    bench.add(bench.comm(), b, two, b);
  }
  bench.device().synchronize(bench.comm());
  bench.expect_values("a chain of operations concurrent with one on another stream", a, 50);
  bench.expect_values("a chain of operations on the comm stream", b, 100);
}

/// compute fills x, comm adds it to itself, compute adds both; nothing waits on the host between.
void check_wait(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor x = bench.floats(), y = bench.floats(), z = bench.floats(), sum = bench.floats();
  bench.fill(bench.compute(), sum, 0);
  float expected = 0;
  for (int i = 1; i <= 40; ++i) {
    bench.fill(bench.compute(), x, i);
    device.wait(bench.comm(), device.record(bench.compute()));
    if (i % 10 == 0) bench.slow(bench.comm(), milliseconds(1));
    bench.add(bench.comm(), x, x, y);
    device.wait(bench.compute(), device.record(bench.comm()));
    bench.add(bench.compute(), x, y, z);
    bench.add(bench.compute(), sum, z, sum);
    expected += 3 * static_cast<float>(i);
  }
  bench.expect_values("work of two streams that wait for each other's events", sum, expected);
  device.wait(bench.compute(), Event());
  device.synchronize(bench.comm());
}

/// A task that may wait for other ranks comes after all that was launched before it.
void check_tasks_that_wait(DeviceBench& bench) {
  Device& device = bench.device();
  int launched = 0;
  // Tasks of different streams may run at one time, on a thread each.
  const auto ran = std::make_shared<std::atomic<int>>(0);
  const auto missed = std::make_shared<int>(0);
  for (int i = 0; i < 20; ++i) {
    for (Stream* stream : bench.streams()) {
      ++launched;
      device.launch_host(*stream, "task", [ran] { ++*ran; });
    }
    device.launch_host_wait(bench.comm(), "task that waits", [ran, missed, before = launched] {
      if (*ran < before) ++*missed;
    });
  }
  for (Stream* stream : bench.streams()) device.synchronize(*stream);
  bench.expect(*missed == 0,
               "{} of 20 tasks of launch_host_wait ran before what was launched before them",
               *missed);
}

}  // namespace

void check_streams(DeviceBench& bench) {
  Device& device = bench.device();
  const std::vector<Stream*> streams = bench.streams();
  bench.expect(!device.name().empty(), "the device has no name");
  bench.expect(std::set<Stream*>(streams.begin(), streams.end()).size() == streams.size(),
               "the compute stream and those of the lanes are not {} different streams",
               streams.size());
  bench.expect(bench.compute().index() == 0, "the compute stream's index is not 0");
  for (Stream* stream : streams) {
    bench.expect(
        &stream->device() == &device, "stream \"{}\" is of another device", stream->name());
    const auto slow = bench.slow(*stream, milliseconds(5));
    device.synchronize(*stream);
    bench.expect(*slow.done, "synchronize(\"{}\") does not wait for its work", stream->name());
    bench.expect(device.query(slow.end), "an event is not reached when its stream has run dry");
  }
  check_order_of_tasks(bench);
  check_independence(bench);
  check_wait(bench);
  check_tasks_that_wait(bench);
}

void check_events(DeviceBench& bench) {
  Device& device = bench.device();
  bench.expect(device.query(Event()), "a default event is not reached");
  device.join(Event(), Clock::now() - milliseconds(1), "a default event");

  const auto joined = bench.slow(bench.comm(), milliseconds(5));
  const Event copy = joined.end;
  bench.slow(bench.comm(), milliseconds(1));
  device.join(joined.end, bench.soon(), "a slow task");
  bench.expect(*joined.done, "join returns before the work that comes before its event");
  bench.expect(device.query(joined.end) && device.query(copy),
               "an event, or a copy of it, is not reached after join");

  const auto asked = bench.slow(bench.compute(), milliseconds(5));
  const Deadline end = bench.soon();
  for (bool reached = false; !reached && Clock::now() < end;) {
    reached = device.query(asked.end);
    bench.expect(!reached || *asked.done, "query is true before the work before the event is done");
    if (!reached) std::this_thread::yield();
  }
  bench.expect(*asked.done, "query stays false, although the host asks for 20 s");
}

void check_waits(DeviceBench& bench) {
  Device& device = bench.device();
  constexpr milliseconds kSlow{120}, kAtOnce{80};
  const Tensor x = bench.floats();
  bench.fill(bench.compute(), x, 1);
  bench.read(x);

  // Where the work was done when its launch returned, a wait has nothing to wait for.
  const auto expect_end =
      [&](std::string_view call, std::string_view mention, const std::function<void()>& wait) {
        const Clock::time_point begin = Clock::now();
        try {
          wait();
        } catch (const Error& error) {
          bench.expect(std::string_view(error.what()).find(mention) != std::string_view::npos,
                       "{} ended with an error that does not mention \"{}\": {}",
                       call,
                       mention,
                       error.what());
          return;
        }
        bench.expect(Clock::now() - begin < kAtOnce,
                     "{} was to end early with \"{}\" and ran to its end",
                     call,
                     mention);
      };
  constexpr std::string_view kWhat = "what the check waits for";
  const auto late = bench.slow(bench.compute(), kSlow);
  expect_end("join at its deadline", kWhat, [&] {
    device.join(late.end, Clock::now() + milliseconds(2), kWhat);
  });
  device.join(late.end, bench.soon(), kWhat);
  bench.expect(*late.done, "an event cannot be joined again after a deadline");
  device.join(late.end, Clock::now() - milliseconds(1), kWhat);  // reached: no deadline matters

  static constexpr std::string_view kFailure = "a peer failed";
  int asked = 0;  // the end of a wait asks once, too
  device.set_wait_check([&asked] { require(++asked < 2, "{}", kFailure); });
  const auto hold = [&] { return bench.slow(bench.compute(), kSlow).end; };
  const Event held = hold();
  asked = 0;
  expect_end("join under a wait check", kFailure, [&] { device.join(held, bench.soon(), kWhat); });
  hold();
  asked = 0;
  expect_end(
      "synchronize under a wait check", kFailure, [&] { device.synchronize(bench.compute()); });
  hold();
  asked = 0;
  expect_end("read under a wait check", kFailure, [&] { bench.read(x); });
  device.set_wait_check([] { fail("{}", kFailure); });
  const auto expect_told = [&](std::string_view call, const std::function<void()>& ask) {
    bench.expect_error(
        fmt::format("{} of what is reached, under a wait check that throws", call), kFailure, ask);
  };
  expect_told("join", [&] { device.join(late.end, bench.soon(), kWhat); });
  expect_told("join before all work", [&] { device.join({}, bench.soon(), kWhat); });
  expect_told("query", [&] { device.query(late.end); });
  device.set_wait_check({});
  device.synchronize(bench.compute());
  device.set_wait_check([] { fail("{}", kFailure); });
  expect_told("synchronize", [&] { device.synchronize(bench.compute()); });
  expect_told("read", [&] { bench.read(x); });
  device.set_wait_check({});
  bench.expect_values("a tensor after waits that ended early", x, 1);
}

void check_times(DeviceBench& bench) {
  Device& device = bench.device();
  constexpr milliseconds kSlow{20};
  const double seconds = std::chrono::duration<double>(kSlow).count();
  const Event begin = device.record(bench.compute(), Timing::yes);
  const auto slow = bench.slow(bench.compute(), kSlow, Timing::yes);
  const auto unreached = [&]() -> double {
    try {
      return device.elapsed(begin, slow.end);
    } catch (const Error&) {
      return seconds;
    }
  }();
  bench.expect(unreached > 0.7 * seconds, "elapsed has a value before its events are reached");
  device.join(slow.end, bench.soon(), "a slow task");
  const double forward = device.elapsed(begin, slow.end);
  const double backward = device.elapsed(slow.end, begin);
  bench.expect(forward > 0.7 * seconds && forward < 100 * seconds,
               "elapsed is {} s for work of {} s: it is not when the stream reached the events",
               forward,
               seconds);
  bench.expect(std::abs(backward + forward) < 1e-5,
               "elapsed backwards is {} s, not {} s",
               backward,
               -forward);
  const Event untimed = device.record(bench.compute());
  device.synchronize(bench.compute());
  bench.expect_error(
      "elapsed to an event without time", "elapsed", [&] { device.elapsed(begin, untimed); });
  bench.expect_error(
      "elapsed from a default event", "elapsed", [&] { device.elapsed(Event(), begin); });
}

void check_counts(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor x = bench.floats();
  const HostBlock block = device.host_block(x.bytes());
  const std::vector<float> values(static_cast<std::size_t>(x.elements()), 1);
  const HostCalls before = device.host_calls();
  device.copy_from_host(bench.compute(), x, block);
  bench.fill(bench.compute(), x, 1);
  device.copy_to_host(bench.compute(), x, block);
  const Event end = device.record(bench.compute());
  device.query(end);
  device.wait(bench.comm(), end);
  bench.expect(device.host_calls() == before, "a call that does not wait is counted as one");
  device.join(end, bench.soon(), "a copy");
  device.write(x, values.data());
  device.write(x, values.data());
  for (int i = 0; i < 3; ++i) bench.read(x);
  for (int i = 0; i < 4; ++i) device.synchronize(bench.compute());
  const HostCalls after = device.host_calls();
  bench.expect(after.join == before.join + 1 && after.write == before.write + 2 &&
                   after.read == before.read + 3 && after.synchronize == before.synchronize + 4,
               "1 join, 2 writes, 3 reads and 4 synchronize count as {}, {}, {} and {}",
               after.join - before.join,
               after.write - before.write,
               after.read - before.read,
               after.synchronize - before.synchronize);
}

}  // namespace tessera::testing
