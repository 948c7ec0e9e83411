// The plugins of examples/, built against an installed Tessera as another project would.
#include <gmock/gmock.h>

#include "program_support.hpp"

namespace tessera {
namespace examples_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::minutes kLimit{75};
#else
constexpr std::chrono::minutes kLimit{15};
#endif

TEST(Examples, PluginsBuildAndTrainOutsideTheTree) {
  const testing::TestFolder folder;
  const ProcessResult result = run_process({TESSERA_SOURCE_DIR "/examples/run_plugins.sh",
                                            "--build",
                                            TESSERA_BUILD_DIR,
                                            "--work",
                                            folder.path().string()},
                                           {},
                                           kLimit);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("all plugins work"));
}

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
