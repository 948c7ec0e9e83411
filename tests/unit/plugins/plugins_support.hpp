#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {

using testing::TestFolder;

/// The plugins of this build, loaded once.
const PluginHost& build_plugins();

/// A component of the plugins of this build, from the keys of its table as TOML.
template <class K>
std::shared_ptr<K> make_plugin(std::string_view type,
                               const std::string& keys,
                               typename K::Arguments& arguments,
                               const Given& given = {}) {
  // A [table] among the keys stays below the component's own.
  const Config config = Config::parse("[component]\n" + keys);
  return build_plugins().make<K>(type, *config.node("component"), given, arguments);
}

/// The text of the error that `body` throws; fails the test when it is not an E.
template <class E, class F>
std::string text_of(F&& body) {
  std::string text = testing::error_of<E>(body);
  if (text.empty()) throw std::runtime_error("nothing was thrown");
  return text;
}

}  // namespace tessera
