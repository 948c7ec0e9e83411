#include "kernel/launch/user_secret.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>

#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace user_secret_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestFolder;

std::string error_of(const std::filesystem::path& folder) {
  return testing::error_of<ConfigError>([&] { user_secret(folder); });
}

mode_t mode_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found.st_mode & 07777;
}

TEST(UserSecret, IsMadeOnceAndForItsOwnerAlone) {
  const TestFolder folder, other;
  const std::string secret = user_secret(folder.at("tessera"));
  EXPECT_EQ(secret.size(), 32U);
  EXPECT_EQ(user_secret(folder.at("tessera")), secret);
  EXPECT_NE(user_secret(other.at("tessera")), secret);
  EXPECT_EQ(mode_of(folder.at("tessera")), 0700U);
  EXPECT_EQ(mode_of(folder.at("tessera/secret")), 0600U);
}

TEST(UserSecret, IsOneForAllWhoMakeItAtOnce) {
  const TestFolder folder;
  std::mutex mutex;
  std::set<std::string> seen;
  std::vector<std::thread> ranks;
  for (int i = 0; i < 8; ++i) {
    ranks.emplace_back([&] {
      const std::string secret = user_secret(folder.at("tessera"));
      const std::lock_guard lock(mutex);
      seen.insert(secret);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(seen.size(), 1U);
}

TEST(UserSecret, WhatOthersMayReadOrOwnIsRefused) {
  const TestFolder folder;
  user_secret(folder.at("a"));
  chmod(folder.at("a").c_str(), 0750);
  EXPECT_THAT(error_of(folder.at("a")),
              AllOf(HasSubstr("/a: others may read it"), HasSubstr("set TESSERA_RUN_TOKEN")));
  chmod(folder.at("a").c_str(), 0700);
  chmod(folder.at("a/secret").c_str(), 0640);
  EXPECT_THAT(error_of(folder.at("a")), HasSubstr("/a/secret: others may read it"));

  user_secret(folder.at("real"));
  ASSERT_EQ(symlink(folder.at("real").c_str(), folder.at("link").c_str()), 0);
  EXPECT_THAT(error_of(folder.at("link")), HasSubstr("/link: "));
  user_secret(folder.at("b"));
  ASSERT_EQ(truncate(folder.at("b/secret").c_str(), 31), 0);
  EXPECT_THAT(error_of(folder.at("b")), HasSubstr("/b/secret: it has not 32 bytes"));
  ASSERT_EQ(unlink(folder.at("b/secret").c_str()), 0);
  ASSERT_EQ(mkfifo(folder.at("b/secret").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder.at("b")), HasSubstr("/b/secret: it is of another kind"));

  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  user_secret(folder.at("c"));
  ASSERT_EQ(chown(folder.at("c").c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of(folder.at("c")), HasSubstr("/c: it belongs to user 65534, not to user 0"));
}

TEST(UserSecretFolder, IsTheRuntimeFolderOnlyWhereThatIsOurs) {
  const TestFolder folder;
  EXPECT_EQ(user_secret_folder(folder.path().string()), folder.path() / "tessera");
  const std::string in_tmp = "/tmp/tessera-" + std::to_string(geteuid());
  EXPECT_EQ(user_secret_folder(std::nullopt), in_tmp);
  EXPECT_EQ(user_secret_folder("/nonexistent"), in_tmp);
  EXPECT_EQ(user_secret_folder("."), in_tmp);
  chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(user_secret_folder(folder.path().string()), in_tmp);
}

}  // namespace user_secret_test
}  // namespace tessera
