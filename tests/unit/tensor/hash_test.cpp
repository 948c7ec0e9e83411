#include "tessera/base/hash.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace hash_test {

// Checkpoints hold it. The published digests of XXH3 for no bytes.
TEST(Hash64, IsXxh3) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2U);
  EXPECT_NE(hash64("", 1), hash64(""));
  EXPECT_NE(hash64("a"), hash64("b"));
}

}  // namespace hash_test
}  // namespace tessera
