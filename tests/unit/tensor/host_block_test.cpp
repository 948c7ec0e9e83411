// What of host blocks, copies and waits is a host device's own; the contract is device_check's
// part.
#include "tessera/device/host_block.hpp"

#include <algorithm>
#include <cmath>

#include "tensor_support.hpp"

namespace tessera {
namespace host_block_test {

using namespace testing_support;

class HostCopies : public ::testing::Test {
 protected:
  HostCopy copy(const Tensor& tensor) const { return host_copy("copy", tensor, block_, 8); }

  TestDevice device_;
  HostBlock block_ = device_.host_block(1000);
  Tensor cube_ = empty(device_, {4, 6, 8});
};

TEST_F(HostCopies, AreRowsAtOneDistance) {
  const auto expect = [&](const Tensor& tensor, i64 rows, i64 row_bytes, i64 pitch) {
    const HostCopy made = copy(tensor);
    EXPECT_EQ(made.tensor, tensor.arg().address) << tensor.text();
    EXPECT_EQ(made.block, block_.address() + 8) << tensor.text();
    EXPECT_EQ(made.rows, rows) << tensor.text();
    EXPECT_EQ(made.row_bytes, row_bytes) << tensor.text();
    EXPECT_EQ(made.pitch, pitch) << tensor.text();
  };
  expect(cube_, 1, 768, 768);
  expect(cube_.slice(0, 1, 2), 1, 384, 384);
  expect(cube_.slice(1, 2, 3), 4, 96, 192);
  expect(cube_.slice(2, 7, 1), 24, 4, 32);
  expect(cube_.slice(0, 3, 1).slice(2, 1, 2), 6, 8, 32);
  expect(cube_.slice(1, 5, 1), 4, 32, 192);
  expect(cube_.slice(1, 0, 0), 0, 0, 0);
  expect(empty(device_, {}), 1, 4, 4);
}

TEST_F(HostCopies, RefuseWhatOneCopyCannotMove) {
  EXPECT_ERROR(copy(cube_.slice(1, 0, 3).slice(2, 0, 4)),
               "copy of fp32 [4, 3, 4] with strides [48, 8, 1]: one copy moves a dense tensor, or "
               "rows of one length at one distance; copy it to a dense tensor first");
  EXPECT_ERROR(host_copy("copy", cube_, block_, 300),
               "copy of fp32 [4, 6, 8] (768 bytes) needs them in the host block from byte 300 on, "
               "which has 1000 bytes");
  EXPECT_ERROR(copy(Tensor()), "copy of an undefined tensor");
}

TEST_F(HostCopies, GiveTypedValues) {
  EXPECT_EQ(block_.as<double>(125).size(), 125U);
  EXPECT_EQ(block_.as<float>(2, 992).data(), reinterpret_cast<float*>(block_.address() + 992));
  EXPECT_ERROR(block_.as<float>(3, 992),
               "3 values of 4 bytes from byte 992 on are not within a host block of 1000 bytes");
  EXPECT_ERROR(block_.as<float>(1, 2),
               "values of 4 bytes cannot lie at byte 2 of a host block: align the offset");
}

constexpr u64 kSeeds = 100;

TEST(DeferredCopies, ShowNaNUntilTheyLand) {
  int early = 0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    TestDevice device(deferred(seed));
    const HostBlock block = device.host_block(64);
    EXPECT_TRUE(std::isnan(block.as<float>(16)[15])) << "fresh";
    std::ranges::fill(block.as<float>(16), 1.0F);
    const Tensor x = empty(device, {3});
    fill(device.stream(), x, 2);
    device.copy_to_host(device.stream(), x, block, 4);
    const Event end = device.record(device.stream());
    const auto values = block.as<float>(16);
    early += std::isnan(values[1]) && std::isnan(values[3]);
    EXPECT_NE(values[3], 1) << "an old value looks right";
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[4], 1);
    device.join(end, kNoDeadline, "the copy");
    EXPECT_EQ(values[1], 2);
    EXPECT_EQ(values[3], 2);
  }
  EXPECT_GT(early, kSeeds / 2);
}

TEST(DeferredCopies, TakeWhatTheBlockHoldsWhenTheyRun) {
  int overwritten = 0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    TestDevice device(deferred(seed));
    const HostBlock block = device.host_block(64);
    const Tensor x = empty(device, {16});
    std::ranges::fill(block.as<float>(16), 1.0F);
    device.copy_from_host(device.stream(), x, block);
    std::ranges::fill(block.as<float>(16), 2.0F);  // too early: no event was waited for
    overwritten += values(device, x)[0] == 2;
  }
  EXPECT_GT(overwritten, kSeeds / 2);
}

TEST(DeferredWaits, QueryIsFalseForAWhile) {
  int asked_again = 0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    TestDevice device(deferred(seed));
    const Tensor x = empty(device, {16});
    fill(device.stream(), x, 2);
    const Event end = device.record(device.stream());
    int questions = 0;
    while (!device.query(end)) ASSERT_LT(++questions, 1000);
    asked_again += questions > 0;
  }
  EXPECT_GT(asked_again, kSeeds / 2);
}

TEST(DeferredWaits, NameWhatTheyWaitedFor) {
  TestDevice device(deferred(1));
  const Event end = [&] {
    const Tensor x = empty(device, {16});
    fill(device.stream(), x, 2);
    return device.record(device.stream());
  }();
  EXPECT_THAT([&] { device.join(end, Deadline(), "the splits of layer 3"); },
              ::testing::ThrowsMessage<Error>(::testing::MatchesRegex(
                  "device \"test\" has not reached the splits of layer 3 after 0\\.[0-9]* s: it is "
                  "stuck, or the deadline is too short for the work that comes before")));
}

TEST(DeferredErrors, NameTheirOperation) {
  const Kernel broken =
      make_kernel<TestFillArgs>([](const TestFillArgs&) { return tessera::LaunchRequirements(); },
                                [](const TestFillArgs&, void*, Stream&) { fail_config("broken"); });
  HostDevice device("test", deferred(1), {broken});
  fill(device.stream(), empty(device, {1}), 1);
  try {
    device.synchronize(device.stream());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "operation \"test.fill\": broken");
    EXPECT_EQ(error.exit_code(), 2);
  }
  device.launch_host(device.stream(), "task", [] { fail("broken"); });
  EXPECT_ERROR(device.synchronize(device.stream()), "host task \"task\": broken");
}

TEST(HostDevicesWithoutCaptures, RefuseThem) {
  DeviceArguments arguments;
  arguments.captures = false;
  TestDevice device(arguments);
  fill(device.stream(), empty(device, {4}), 1);
  EXPECT_ERROR(device.begin_capture(device.stream()),
               "begin_capture(\"compute\") on device \"test\", which was made for a run without "
               "captures: set DeviceArguments::captures");
  EXPECT_FALSE(device.capturing());
}

}  // namespace host_block_test
}  // namespace tessera
