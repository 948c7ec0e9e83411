#include "kernel/comm/error_json.hpp"

#include <nlohmann/json.hpp>

#include <array>

#include "tessera/io/json.hpp"
#include "tessera/io/parse_json.hpp"

namespace tessera {
namespace {

using Kind = ErrorFrame::Kind;

constexpr std::array kKinds = {"own", "configuration", "peer_failed", "peer_silent", "interrupted"};
constexpr std::array kResources = {"none", "memory", "open_files", "file_size", "threads"};
constexpr std::array kFrames = {"note",
                                "culprit",
                                "told",
                                "key",
                                "advice",
                                "operation",
                                "collective",
                                "place",
                                "kernel",
                                "choice",
                                "component"};
static_assert(kKinds.size() == static_cast<std::size_t>(ErrorKind::interrupted) + 1);
static_assert(kResources.size() == static_cast<std::size_t>(Resource::threads) + 1);
static_assert(kFrames.size() == static_cast<std::size_t>(Kind::component) + 1);

template <class Enum, std::size_t N>
Enum value_of(const std::array<const char*, N>& names, const std::string& name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  fail("no error has \"{}\"", name);
}

}  // namespace

std::string_view name(ErrorKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::string error_json(const Error& error) {
  const Json frames = Json::array(error.frames(), [](const ErrorFrame& frame) {
    Json pair = Json::array();
    pair.push(kFrames[static_cast<std::size_t>(frame.kind)]).push(frame.text);
    return pair;
  });
  return Json()
      .add("kind", name(error.kind()))
      .add("rank", error.rank())
      .add("resource", kResources[static_cast<std::size_t>(error.resource())])
      .add("text", error.text())
      .add("frames", frames)
      .text();
}

Error error_of_json(std::string_view json) try {
  const auto tree = parse_json<nlohmann::json>(json, "an error of another process");
  Error error(tree.at("text").get<std::string>(),
              value_of<ErrorKind>(kKinds, tree.at("kind").get<std::string>()),
              tree.at("rank").get<i64>());
  error.add(value_of<Resource>(kResources, tree.at("resource").get<std::string>()));
  for (const auto& frame : tree.at("frames")) {
    error.add(value_of<Kind>(kFrames, frame.at(0).get<std::string>()),
              frame.at(1).get<std::string>());
  }
  return error;
} catch (const nlohmann::json::exception&) {
  fail("an error of another process cannot be read: {}", json);
}

}  // namespace tessera
