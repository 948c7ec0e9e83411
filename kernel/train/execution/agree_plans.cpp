#include "kernel/train/execution/agree_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

void agree_plans(const Plan& plan,
                 const Mesh& mesh,
                 Store& store,
                 std::chrono::milliseconds timeout) {
  const std::string text = plan.text();
  const std::string hash = fmt::format("{:016x}", hash64(text));
  i64 first = mesh.rank();
  for (const std::vector<i64>& ranks : mesh.ranks().groups("tp-cp-dp")) {
    if (std::ranges::find(ranks, mesh.rank()) != ranks.end()) first = ranks.front();
  }
  const std::string key = fmt::format("plan of rank {}", first);
  if (first == mesh.rank()) {
    store.set(key + "/text", text);
    store.set(key, hash);
    return;
  }
  if (store.get(key, timeout) == hash) return;
  const std::string theirs = store.get(key + "/text", timeout);
  fail_config(
      "{}",
      describe_difference({{"their plan", theirs}}, first, {{"their plan", text}}, mesh.rank()));
}

}  // namespace tessera
