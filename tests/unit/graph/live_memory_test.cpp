// The checker of replays, on memory that is laid out by hand.
#include "kernel/graph/live_memory.hpp"

#include <gmock/gmock.h>

#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace live_memory_test {

using testing::error_of;
using ::testing::HasSubstr;

class Replays : public ::testing::Test {
 protected:
  AddressRange at(i64 offset, i64 bytes) const { return {memory_ + offset, bytes}; }
  GraphMemory graph(int slot, bool backward, AddressRange kept, AddressRange scratch) const {
    return graph(slot, backward ? " backward" : " forward", backward ? 1 : 0, kept, scratch);
  }
  GraphMemory graph(
      int slot, const std::string& part, int index, AddressRange kept, AddressRange scratch) const {
    const std::string name = "block slot " + std::to_string(slot);
    const bool last = part == " backward" || part == " weight half";
    return {name + part, name, index, last, {kept}, {scratch}};
  }
  // Slot i owns [100 i, 100 i + 100); scratch is [1000, 1100).
  GraphMemory forward(int slot) const { return graph(slot, false, at(100 * slot, 80), scratch_); }
  GraphMemory backward(int slot) const {
    return graph(slot, true, at(100 * slot + 80, 20), scratch_);
  }
  GraphMemory input_half(int slot) const {
    return graph(slot, " input half", 1, at(100 * slot + 80, 10), scratch_);
  }
  GraphMemory weight_half(int slot) const {
    return graph(slot, " weight half", 2, at(100 * slot + 90, 10), scratch_);
  }
  char memory_[2000] = {};
  AddressRange scratch_ = at(1000, 100);
  LiveMemory live_;
};

TEST_F(Replays, SlotsMayInterleave) {
  for (const GraphMemory& next :
       {forward(0), forward(1), backward(0), forward(0), backward(1), backward(0), forward(1)}) {
    EXPECT_EQ(error_of([&] { live_.replay(next); }), "") << next.name;
  }
}

TEST_F(Replays, ScratchInALiveSlotIsRejected) {
  live_.replay(forward(0));
  const std::string found =
      error_of([&] { live_.replay(graph(1, false, at(100, 80), at(79, 10))); });
  EXPECT_THAT(found, HasSubstr("graph \"block slot 1 forward\" writes 10 bytes at"));
  EXPECT_THAT(found, HasSubstr("where \"block slot 0 forward\" has 80 bytes at"));
}

TEST_F(Replays, TouchingIsNotOverlapping) {
  live_.replay(forward(0));
  EXPECT_EQ(error_of([&] { live_.replay(graph(1, false, at(100, 80), at(80, 20))); }), "");
}

TEST_F(Replays, ResultsInALiveSlotAreRejected) {
  live_.replay(forward(0));
  EXPECT_NE(error_of([&] { live_.replay(graph(1, false, at(40, 80), scratch_)); }), "");
}

TEST_F(Replays, ScratchInTheSlotsOwnSavedValuesIsRejected) {
  live_.replay(forward(0));
  EXPECT_NE(error_of([&] { live_.replay(graph(0, true, at(80, 20), at(0, 8))); }), "");
}

TEST_F(Replays, BackwardMayReuseWhatItHasRead) {
  live_.replay(forward(0));
  EXPECT_EQ(error_of([&] { live_.replay(graph(0, true, at(0, 20), scratch_)); }), "");
}

TEST_F(Replays, GradientsLiveUntilTheSlotsNextForward) {
  live_.replay(forward(0));
  live_.replay(backward(0));
  const GraphMemory over = graph(1, false, at(100, 80), at(90, 5));
  EXPECT_NE(error_of([&] { live_.replay(over); }), "");
  live_.replay(forward(0));
  EXPECT_EQ(error_of([&] { live_.replay(over); }), "");
}

TEST_F(Replays, ASlotHoldsOneMicrobatch) {
  live_.replay(forward(0));
  EXPECT_THAT(error_of([&] { live_.replay(forward(0)); }), HasSubstr("still holds"));
  EXPECT_THAT(error_of([&] { live_.replay(backward(1)); }), HasSubstr("runs before"));
}

TEST_F(Replays, HalvesOfSlotsMayInterleave) {
  for (const GraphMemory& next : {forward(0),
                                  forward(1),
                                  input_half(0),
                                  input_half(1),
                                  weight_half(0),
                                  forward(0),
                                  weight_half(1),
                                  input_half(0)}) {
    EXPECT_EQ(error_of([&] { live_.replay(next); }), "") << next.name;
  }
}

TEST_F(Replays, ASlotIsHeldUntilItsWeightHalf) {
  live_.replay(forward(0));
  EXPECT_THAT(error_of([&] { live_.replay(weight_half(0)); }), HasSubstr("runs before"));
  live_.replay(input_half(0));
  EXPECT_THAT(error_of([&] { live_.replay(forward(0)); }),
              HasSubstr("still holds after \"block slot 0 input half\""));
  EXPECT_THAT(error_of([&] { live_.replay(input_half(0)); }), HasSubstr("runs before"));
}

TEST_F(Replays, WhatTheWeightHalfReadsIsNotOverwritten) {
  live_.replay(forward(0));
  live_.replay(input_half(0));
  for (const i64 offset : {40, 85}) {  // activations, gradients of results
    const GraphMemory over = graph(1, false, at(100, 80), at(offset, 5));
    EXPECT_NE(error_of([&] { live_.replay(over); }), "") << offset;
  }
  EXPECT_NE(error_of([&] { live_.replay(graph(0, " weight half", 2, at(90, 10), at(40, 5))); }),
            "");
  live_.replay(weight_half(0));
  EXPECT_EQ(error_of([&] { live_.replay(graph(1, false, at(100, 80), at(40, 5))); }), "");
  EXPECT_NE(error_of([&] { live_.replay(graph(2, false, at(200, 80), at(85, 5))); }), "")
      << "gradients that the input half left";
}

}  // namespace live_memory_test
}  // namespace tessera
