// Capture, what it refuses, and replay.
#include <algorithm>

#include "bench.hpp"

namespace tessera::testing {
namespace {

std::unique_ptr<Graph> captured(DeviceBench& bench, const std::function<void()>& body) {
  bench.device().begin_capture(bench.compute());
  body();
  return bench.device().end_capture(bench.compute());
}

/// Call after a capture that failed: it is over, and another one works.
void expect_usable(DeviceBench& bench, std::string_view after, const Tensor& x) {
  Device& device = bench.device();
  device.abort_capture();
  bench.expect(!device.capturing(), "abort_capture after {} leaves a capture", after);
  const auto graph = captured(bench, [&] { bench.fill(bench.compute(), x, 77); });
  bench.fill(bench.compute(), x, 0);
  device.replay(*graph, bench.compute());
  bench.expect_values(fmt::format("a capture after {}", after), x, 77);
}

}  // namespace

void check_capture(DeviceBench& bench) {
  Device& device = bench.device();
  Stream& compute = bench.compute();
  const Tensor x = bench.floats(), y = bench.floats();
  bench.fill(compute, x, 1);
  bench.fill(compute, y, 1);
  bench.add(compute, x, y, x);
  const auto tasks = std::make_shared<int>(0);
  int host = 0, replays = 0, ends = 0;
  bench.expect(!device.capturing(), "capturing() without a capture");
  const auto graph = captured(bench, [&] {
    bench.expect(device.capturing(), "capturing() is false in a capture");
    bench.add(compute, x, y, x);
    device.launch_host(compute, "count", [tasks] { ++*tasks; });
    device.on_replay({.before = [&replays, &compute](Stream& at) { replays += &at == &compute; },
                      .after = [&ends, &replays](Stream&) { ends = replays; }});
    ++host;
  });
  bench.expect(!device.capturing(), "capturing() after the capture");
  bench.expect(replays == 0, "a capture calls what on_replay was given");
  bench.expect(graph->launches() == 2, "two launches count as {}", graph->launches());
  bench.expect_values("a tensor after a capture, which must run nothing", x, 2);
  for (int i = 1; i <= 3; ++i) {
    device.replay(*graph, compute);
    bench.expect(replays == i && ends == i,
                 "{} replays called what on_replay was given {} and {} times",
                 i,
                 replays,
                 ends);
  }
  bench.expect_values("a tensor after three replays", x, 5);
  bench.expect(*tasks == 3 && host == 1,
               "three replays ran a recorded host task {} times and host code {} times more",
               *tasks,
               host - 1);

  bench.expect_error(
      "on_replay outside of a capture", "begin_capture", [&] { device.on_replay({}); });

  const auto fork = captured(bench, [&] {
    bench.fill(compute, x, 4);
    device.wait(bench.comm(), device.record(compute));
    bench.add(bench.comm(), x, x, y);
    const Event done = device.record(bench.comm());
    device.wait(compute, done);
    bench.add(compute, x, y, x);
  });
  for (int i = 0; i < 10; ++i) {
    bench.fill(compute, x, 0);
    bench.fill(compute, y, 0);
    device.replay(*fork, compute);
    bench.expect_values("a graph that forks to the comm stream and joins it", x, 12);
  }
  device.begin_capture(bench.comm());
  bench.fill(bench.comm(), y, 6);
  const auto moved = device.end_capture(bench.comm());
  device.replay(*moved, compute);
  bench.expect_values("a graph of the comm stream, replayed on the compute stream", y, 6);
}

void check_refusals(DeviceBench& bench) {
  Device& device = bench.device();
  Stream& compute = bench.compute();
  Stream& comm = bench.comm();
  const Tensor x = bench.floats(), unseen = bench.floats(compute, {3, 7}, DType::fp32);
  bench.fill(compute, x, 1);
  bench.add(compute, x, x, x);
  const HostBlock block = device.host_block(x.bytes());
  const Event begin = device.record(comm, Timing::yes), end = device.record(comm, Timing::yes);
  device.synchronize(comm);
  const auto empty = captured(bench, [] {});
  std::vector<float> host(static_cast<std::size_t>(x.elements()));

  struct Refused {
    std::string_view name, mention;
    std::function<void()> call;
  };
  const Refused all[] = {
      {"a host read", "read", [&] { device.read(x, host.data()); }},
      {"a host write", "write", [&] { device.write(x, host.data()); }},
      {"synchronize", "synchronize", [&] { device.synchronize(comm); }},
      {"query", "query", [&] { device.query(end); }},
      {"join", "join", [&] { device.join(end, bench.soon(), "an event"); }},
      {"elapsed", "elapsed", [&] { device.elapsed(begin, end); }},
      {"an event that keeps the time", "time", [&] { device.record(compute, Timing::yes); }},
      {"a host block", "host block", [&] { device.host_block(64); }},
      {"memory of the device's pool", "pool", [&] { bench.floats(); }},
      {"a capture", "begin_capture", [&] { device.begin_capture(comm); }},
      {"a replay", "replay", [&] { device.replay(*empty, compute); }},
      {"a wait for an event from outside", "event", [&] { device.wait(compute, end); }},
      {"the first use of an operation", "fill", [&] { bench.fill(compute, unseen, 1); }},
      {"a launch on a stream outside", "fill", [&] { bench.fill(comm, x, 1); }},
      {"a copy on a stream outside", "copy_to_host", [&] { device.copy_to_host(comm, x, block); }},
      {"a host task on a stream outside",
       "a task",
       [&] { device.launch_host(comm, "a task", [] {}); }},
  };
  for (const Refused& refused : all) {
    const std::string what = fmt::format("{} in a capture", refused.name);
    device.begin_capture(compute);
    bench.expect_error(what, refused.mention, refused.call);
    expect_usable(bench, what, x);
    device.begin_capture(compute);
    try {
      refused.call();
    } catch (const Error&) {
      bench.expect_error(fmt::format("the end of a capture after {}", refused.name), "", [&] {
        device.end_capture(compute);
      });
    }
    expect_usable(bench, what, x);
  }

  device.begin_capture(compute);
  device.wait(comm, device.record(compute));
  bench.fill(comm, x, 1);
  bench.expect_error("the end of a capture with a fork that is not joined", comm.name(), [&] {
    device.end_capture(compute);
  });
  expect_usable(bench, "a fork that is not joined", x);
  bench.expect_error(
      "end_capture without a capture", "capture", [&] { device.end_capture(compute); });
  device.begin_capture(compute);
  bench.expect_error(
      "end_capture on another stream", comm.name(), [&] { device.end_capture(comm); });
  expect_usable(bench, "end_capture on another stream", x);

  Event inside;
  captured(bench, [&] { inside = device.record(compute); });
  bench.expect_error(
      "a wait for an event of a capture", "event", [&] { device.wait(comm, inside); });
  bench.expect_error("a query of an event of a capture", "query", [&] { device.query(inside); });
  bench.expect_error("a join of an event of a capture", "join", [&] {
    device.join(inside, bench.soon(), "an event");
  });
  const auto other = bench.another();
  bench.expect_error("a replay of another device's graph", "graph", [&] {
    other->replay(*empty, other->stream());
  });
}

void check_replay(DeviceBench& bench) {
  Device& device = bench.device();
  Stream& compute = bench.compute();
  const Tensor x = bench.floats(), y = bench.floats(), sum = bench.floats();
  for (const Tensor& t : {x, y, sum}) bench.fill(compute, t, 0);
  bench.add(compute, x, x, y);
  HostBlock in = device.host_block(x.bytes());
  const HostBlock out = device.host_block(2 * x.bytes());
  const std::span<float> given = in.as<float>(bench.kElements);
  const i64 here = x.bytes();
  const auto graph = captured(bench, [&] {
    device.copy_from_host(compute, x, in);
    bench.add(compute, x, x, y);
    bench.add(compute, sum, y, sum);
    device.copy_to_host(compute, y, out, here);
  });
  bench.expect(
      graph->launches() == 4, "two launches and two copies count as {}", graph->launches());
  const i64 host_blocks = device.memory().host_blocks;
  in = HostBlock();
  if (device.memory().host_blocks != host_blocks) {
    bench.expect(false, "a graph does not keep the host blocks of its copies");
    return;
  }
  float expected = 0;
  for (int i = 1; i <= 10; ++i) {
    std::ranges::fill(given, static_cast<float>(i));
    device.replay(*graph, compute);
    device.join(device.record(compute), bench.soon(), "a replay");
    expected += 2 * static_cast<float>(i);
    bench.expect_values("a recorded copy to the host",
                        out.as<float>(bench.kElements, here),
                        2 * static_cast<float>(i));
  }
  bench.expect_values("a sum over replays with new values", sum, expected);

  bench.fill(compute, sum, 0);
  for (int i = 0; i < 5; ++i) device.replay(*graph, compute);
  bench.expect_values("a sum over replays that were queued at once", sum, 5 * 20);
}

}  // namespace tessera::testing
