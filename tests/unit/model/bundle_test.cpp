#include <gmock/gmock.h>

#include "tessera/error.hpp"
#include "tessera/layer.hpp"

namespace tessera {
namespace bundle_test {

using ::testing::ThrowsMessage;

TEST(Bundles, RefuseSlotsThatAreNotTheirs) {
  Bundle bundle(3, 1);
  const Bundle& constant = bundle;
  EXPECT_FALSE(bundle[Slot{2}].defined());
  EXPECT_TRUE(bundle[HostSlot{0}].empty());
  constexpr const char* kDefault =
      "a bundle with 3 slots is asked for slot -1: it is a default one; make it in the layer's "
      "constructor, with BuildContext::slot";
  EXPECT_THAT([&] { bundle[Slot()]; }, ThrowsMessage<Error>(kDefault));
  EXPECT_THAT([&] { constant[Slot()]; }, ThrowsMessage<Error>(kDefault));
  EXPECT_THAT([&] { bundle[Slot{3}]; },
              ThrowsMessage<Error>("a bundle with 3 slots is asked for slot 3: it was made for "
                                   "another model chunk"));
  EXPECT_THROW(bundle[HostSlot()], Error);
  EXPECT_THROW(bundle[HostSlot{1}], Error);
}

}  // namespace bundle_test
}  // namespace tessera
