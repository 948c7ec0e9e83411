// The scripts of examples/; run_plugins.sh is a part of author_test.cpp.
#include <gmock/gmock.h>

#include "program_support.hpp"

namespace tessera {
namespace examples_test {

TEST(Examples, TheTextGoesIntoNoFolderThatHasOtherFiles) {
  const testing::TestFolder folder;
  folder.write("notes.md", "mine");
  EXPECT_THAT(run_process({TESSERA_SOURCE_DIR "/examples/fetch_shakespeare.sh",
                           folder.path().string() + "/"}),
              Exits(1, ::testing::HasSubstr("has other files; give an empty folder")));
  EXPECT_EQ(folder.read("notes.md"), "mine");
}

}  // namespace examples_test
}  // namespace tessera
