#include "kernel/graph/lifetimes.hpp"

#include <gmock/gmock.h>

#include "kernel/graph/slot_pool.hpp"
#include "tessera/host_device.hpp"

namespace tessera {
namespace {

class Lifetime : public ::testing::Test {
 protected:
  Block take(Pool& pool, i64 bytes) {
    return pool.allocate(bytes, Category::activations, device_.stream());
  }
  // Two segments: a dies in the first, b in the second, c never, d in the second.
  void run(Pool& pool, const std::function<void()>& end_segment) {
    const Block a = take(pool, 100);
    const Block b = take(pool, 64);
    pool.release(a);
    c_ = take(pool, 200);
    end_segment();
    const Block d = take(pool, 640);
    pool.release(b);
    pool.release(d);
    end_segment();
  }

  HostDevice device_{"test", {}, {}};
  Block c_;
};

TEST_F(Lifetime, SaysWhatOutlivesItsSegment) {
  LifetimeRecorder recorder(device_.pool());
  run(recorder, [&] { recorder.end_segment(); });
  const Lifetimes found = recorder.lifetimes();
  std::vector<bool> kept;
  for (const Request& request : found.requests) kept.push_back(request.kept);
  EXPECT_THAT(kept, ::testing::ElementsAre(false, true, true, false));
  EXPECT_EQ(found.kept_bytes, 64 + 256);
  EXPECT_EQ(found.scratch_bytes, 640) << "of the larger segment";
  recorder.release(c_);
}

TEST_F(Lifetime, ACaptureGetsTheSameFromItsTwoArenas) {
  LifetimeRecorder recorder(device_.pool());
  run(recorder, [&] { recorder.end_segment(); });
  const Lifetimes found = recorder.lifetimes();
  recorder.release(c_);
  Arena kept(device_.pool(), found.kept_bytes, device_.stream());
  Arena scratch(device_.pool(), found.scratch_bytes, device_.stream());
  SlotPool pool(found, kept, scratch);
  std::vector<GraphMemory> segments;
  run(pool, [&] { segments.push_back(pool.end_segment()); });
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].kept.size(), 2U);
  EXPECT_EQ(segments[0].scratch.size(), 1U);
  EXPECT_EQ(segments[1].kept.size(), 0U);
  EXPECT_EQ(segments[1].scratch.at(0).address, scratch.address());
  EXPECT_EQ(segments[0].kept.at(0).address, kept.address());
  pool.release(c_);
}

TEST_F(Lifetime, ACaptureThatAsksForSomethingElseIsRefused) {
  const Lifetimes found{{{64, true}}, 64, 64};
  Arena kept(device_.pool(), 64, device_.stream());
  Arena scratch(device_.pool(), 64, device_.stream());
  SlotPool pool(found, kept, scratch);
  EXPECT_THROW(take(pool, 32), Error);
  pool.release(take(pool, 64));
  EXPECT_THROW(take(pool, 64), Error) << "one request more";
}

TEST_F(Lifetime, ScratchThatOutlivesItsSegmentIsRefused) {
  const Lifetimes found{{{64, false}}, 64, 64};
  Arena kept(device_.pool(), 64, device_.stream());
  Arena scratch(device_.pool(), 64, device_.stream());
  SlotPool pool(found, kept, scratch);
  const Block block = take(pool, 64);
  EXPECT_THROW(pool.end_segment(), Error);
  pool.release(block);
}

}  // namespace
}  // namespace tessera
