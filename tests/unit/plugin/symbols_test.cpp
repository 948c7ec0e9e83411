#include "kernel/plugin/symbols.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>

#include "plugin_support.hpp"

namespace tessera {
namespace symbols_test {

// Not exported: only the table that strip removes has it.
[[gnu::noinline]] static int find_me(int x) {
  volatile int y = x;
  return y + 1;
}

std::string function_of(const char* file, u64 address, std::size_t longest = 256) {
  std::string name(longest, ' ');
  return std::string(function_at(file, address, name));
}

TEST(FunctionAt, OneThatIsNotExported) {
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&find_me), &info), 0);
  const u64 at = reinterpret_cast<u64>(&find_me) - reinterpret_cast<u64>(info.dli_fbase);
  const std::string name = function_of("/proc/self/exe", at + 1);
  EXPECT_NE(name.find("find_me"), std::string::npos) << name;
  EXPECT_EQ(function_of("/proc/self/exe", at, 4), name.substr(0, 4)) << "cut to what there is";
  EXPECT_EQ(find_me(1), 2);
}

TEST(FunctionAt, NothingWhereNothingIsKnown) {
  EXPECT_EQ(function_of("/proc/self/exe", 1), "") << "in the file's header";
  EXPECT_EQ(function_of("/nonexistent/libx.so", 1), "");
  const testing::TestFolder folder;
  std::ofstream(folder.at("text")) << "no library";
  EXPECT_EQ(function_of(folder.at("text").c_str(), 1), "");
}

}  // namespace symbols_test
}  // namespace tessera
