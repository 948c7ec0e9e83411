#include "kernel/checkpoint/folder_place.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace folder_place_test {

namespace fs = std::filesystem;

TEST(FolderPlace, SaysWhatIsInTheWay) {
  const TestFolder folder;
  const auto at = [&](const std::string& name) { return folder.at(name); };
  folder.write("folder/file", "");
  fs::create_symlink("folder", at("good"));
  fs::create_symlink("nowhere", at("dangling"));
  fs::create_symlink("dangling", at("chain"));
  fs::create_symlink("circle2", at("circle"));
  fs::create_symlink("circle", at("circle2"));
  fs::create_symlink("itself", at("itself"));
  for (const char* fine : {"folder", "new", "new/below", "good", "good/new"}) {
    EXPECT_EQ(why_no_folder(at(fine)), "") << fine;
  }
  const std::string gone = ", which does not exist; make that folder, or remove the link";
  const std::string back = ", which leads back to it; remove the link";
  for (const std::string below : {"", "/below", "/below/further"}) {
    EXPECT_EQ(why_no_folder(at("folder/file") + below), at("folder/file") + " is not a folder");
    EXPECT_EQ(why_no_folder(at("dangling") + below),
              at("dangling") + " is a link to nowhere" + gone);
    EXPECT_EQ(why_no_folder(at("chain") + below), at("chain") + " is a link to dangling" + gone);
    EXPECT_EQ(why_no_folder(at("circle") + below), at("circle") + " is a link to circle2" + back);
    EXPECT_EQ(why_no_folder(at("itself") + below), at("itself") + " is a link to itself" + back);
  }
}

TEST(FolderPlace, MakesAFolderOrSaysWhyNot) {
  const TestFolder folder;
  make_folder(folder.at("a/b"));
  EXPECT_TRUE(fs::is_directory(folder.at("a/b")));
  make_folder(folder.at("a/b"));
  fs::create_symlink("nowhere", folder.at("link"));
  EXPECT_EQ(
      text_of<Error>([&] { make_folder(folder.at("link/c")); }),
      "cannot make the folder " + folder.at("link/c") + ": " + why_no_folder(folder.at("link")));
}

}  // namespace folder_place_test
}  // namespace tessera
