#include "kernel/plugin/abi.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace abi_test {

TEST(AbiDifference, NamesTheFieldsThatDiffer) {
  EXPECT_EQ(abi_difference("sdk headers=91c2;compiler=GNU 12;sanitizer=none",
                           "sdk headers=40fe;compiler=GNU 12;sanitizer=address"),
            "sdk headers (91c2 vs 40fe), sanitizer (none vs address)");
}

TEST(AbiDifference, EqualFieldsDoNotDiffer) {
  EXPECT_EQ(abi_difference("a=1;b=2", "a=1;b=2"), "");
  EXPECT_EQ(abi_difference("b=2;a=1", "a=1;b=2"), "");
  EXPECT_EQ(abi_difference("", ""), "");
}

TEST(AbiDifference, AFieldThatOneSideLacks) {
  EXPECT_EQ(abi_difference("a=1", "a=1;fmt=9"), "fmt (not given vs 9)");
  EXPECT_EQ(abi_difference("a=1;fmt=9", "a=1"), "fmt (9 vs not given)");
  EXPECT_EQ(abi_difference("garbage", "a=1"), "a (not given vs 1), garbage ( vs not given)");
}

TEST(AbiStamp, HostHasOne) {
  EXPECT_EQ(host_abi_stamp().size(), 8U);
  EXPECT_TRUE(host_abi_fields().starts_with("sdk headers=")) << host_abi_fields();
}

}  // namespace abi_test
}  // namespace tessera
