#include "kernel/plugin/search_path.hpp"

#include <gmock/gmock.h>

#include "plugin_support.hpp"
#include "tessera/error.hpp"
#include "tests/common/environment.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace search_path_test {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;
using ::testing::ElementsAre;

class SearchPath : public ::testing::Test {
 protected:
  fs::path folder(const std::string& name) {
    fs::create_directories(root_.path() / name);
    return fs::canonical(root_.path() / name);
  }
  std::string error(const Paths& configured, const char* environment) {
    return testing::error_of<ConfigError>(
        [&] { plugin_search_path(configured, environment, program_); });
  }
  testing::TestFolder root_;
  fs::path program_ = root_.path() / "bin" / "tessera";
};

TEST_F(SearchPath, ConfiguredThenEnvironmentThenTheProgramsOwn) {
  const fs::path a = folder("a"), b = folder("b"), c = folder("c"), d = folder("d");
  const fs::path own = folder("lib/tessera/plugins");
  const std::string environment = c.string() + ":" + d.string();
  EXPECT_THAT(plugin_search_path({b, a}, environment.c_str(), program_),
              ElementsAre(b, a, c, d, own));
}

TEST_F(SearchPath, BuildTreesHavePluginsBesideBin) {
  const fs::path own = folder("plugins");
  EXPECT_THAT(plugin_search_path({}, nullptr, program_), ElementsAre(own));
  const fs::path installed = folder("lib/tessera/plugins");
  EXPECT_THAT(plugin_search_path({}, nullptr, program_), ElementsAre(installed))
      << "<prefix>/plugins of an installed tree is not ours";
}

TEST_F(SearchPath, NeitherTheWorkingFolderNorLoaderPathsCount) {
  EXPECT_THAT(plugin_search_path({}, nullptr, program_), ElementsAre());
  EXPECT_THAT(plugin_search_path({}, "", program_), ElementsAre());
  const fs::path a = folder("a");
  const std::string with_empty_entries = "::" + a.string() + ":";
  EXPECT_THAT(plugin_search_path({}, with_empty_entries.c_str(), program_), ElementsAre(a));
}

TEST_F(SearchPath, AFolderCountsOnce) {
  const fs::path a = folder("a"), b = folder("b");
  fs::create_directory_symlink(a, root_.path() / "link");
  EXPECT_THAT(plugin_search_path({a, b, root_.path() / "link", a}, a.c_str(), program_),
              ElementsAre(a, b));
}

TEST_F(SearchPath, AFolderThatWasAskedForMustExist) {
  const std::string absent = (root_.path() / "absent").string();
  EXPECT_EQ(error({absent}, nullptr), "[plugins] path: there is no folder " + absent);
  EXPECT_EQ(error({}, absent.c_str()), "TESSERA_PLUGIN_PATH: there is no folder " + absent);
}

TEST_F(SearchPath, TheEnvironmentsFoldersBeginAtTheHomeFolderToo) {
  const testing::EnvironmentVariable home("HOME", root_.path().string());
  const fs::path a = folder("a");
  EXPECT_THAT(plugin_search_path({}, "~/a", program_), ElementsAre(a));
  EXPECT_THAT(error({}, "~ann/a"), ::testing::StartsWith("TESSERA_PLUGIN_PATH: \"~ann/a\": only"));
}

TEST(ProgramPath, IsThisProgram) { EXPECT_EQ(program_path().filename(), "tests_unit"); }

}  // namespace search_path_test
}  // namespace tessera
