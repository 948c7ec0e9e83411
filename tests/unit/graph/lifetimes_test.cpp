#include "kernel/graph/lifetimes.hpp"

#include <gmock/gmock.h>

#include "kernel/graph/slot_pool.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera {
namespace lifetimes_test {

class LifetimesOf : public ::testing::Test {
 protected:
  Block take(Pool& pool, i64 bytes) {
    return pool.allocate(bytes, Category::activations, device_.stream());
  }
  // Two graphs: a dies in the first, b in the second, c never, d in the second.
  void run(Pool& pool, const std::function<void()>& end_graph) {
    const Block a = take(pool, 100);
    const Block b = take(pool, 64);
    pool.release(a);
    c_ = take(pool, 200);
    end_graph();
    const Block d = take(pool, 640);
    pool.release(b);
    pool.release(d);
    end_graph();
  }

  HostDevice device_{"test", {}, {}};
  Block c_;
};

TEST_F(LifetimesOf, SaysWhatOutlivesItsGraph) {
  LifetimeRecorder recorder(device_.pool());
  run(recorder, [&] { recorder.end_graph(Lifetime::slot); });
  const Lifetimes found = recorder.lifetimes();
  std::vector<bool> kept;
  for (const Request& request : found.requests) {
    kept.push_back(request.lifetime == Lifetime::slot);
  }
  EXPECT_THAT(kept, ::testing::ElementsAre(false, true, true, false));
  EXPECT_EQ(found.bytes(Lifetime::slot), 64 + 256);
  EXPECT_EQ(found.bytes(Lifetime::graph), 640) << "of the larger graph";
  recorder.release(c_);
}

TEST_F(LifetimesOf, ACaptureGetsTheSameFromItsTwoArenas) {
  LifetimeRecorder recorder(device_.pool());
  run(recorder, [&] { recorder.end_graph(Lifetime::slot); });
  const Lifetimes found = recorder.lifetimes();
  recorder.release(c_);
  Arena kept(device_.pool(), found.bytes(Lifetime::slot), device_.stream());
  Arena scratch(device_.pool(), found.bytes(Lifetime::graph), device_.stream());
  SlotPool pool(found, {&scratch, nullptr, &kept});
  std::vector<GraphMemory> graphs;
  run(pool, [&] { graphs.push_back(pool.end_graph()); });
  ASSERT_EQ(graphs.size(), 2U);
  EXPECT_EQ(graphs[0].kept.size(), 2U);
  EXPECT_EQ(graphs[0].scratch.size(), 1U);
  EXPECT_EQ(graphs[1].kept.size(), 0U);
  EXPECT_EQ(graphs[1].scratch.at(0).address, scratch.address());
  EXPECT_EQ(graphs[0].kept.at(0).address, kept.address());
  pool.release(c_);
}

TEST_F(LifetimesOf, ACaptureThatAsksForSomethingElseIsRefused) {
  const Lifetimes found{{{64, Lifetime::slot}}, {64, 0, 64}};
  Arena kept(device_.pool(), 64, device_.stream());
  Arena scratch(device_.pool(), 64, device_.stream());
  SlotPool pool(found, {&scratch, nullptr, &kept});
  EXPECT_THROW(take(pool, 32), Error);
  pool.release(take(pool, 64));
  EXPECT_THROW(take(pool, 64), Error) << "one request more";
}

TEST_F(LifetimesOf, ScratchThatOutlivesItsGraphIsRefused) {
  const Lifetimes found{{{64, Lifetime::graph}}, {64, 0, 64}};
  Arena kept(device_.pool(), 64, device_.stream());
  Arena scratch(device_.pool(), 64, device_.stream());
  SlotPool pool(found, {&scratch, nullptr, &kept});
  const Block block = take(pool, 64);
  EXPECT_THROW(pool.end_graph(), Error);
  pool.release(block);
}

}  // namespace lifetimes_test
}  // namespace tessera
