#include "kernel/comm/control_plane/pulse_check.hpp"

#include <algorithm>
#include <utility>

#include "kernel/comm/control_plane/pulse.hpp"
#include "tessera/error.hpp"

namespace tessera {

using namespace std::chrono_literals;

PulseCheck::PulseCheck(Store& store, std::chrono::milliseconds silence)
    : store_(store), silence_(std::max<std::chrono::milliseconds>(silence, 2s)) {}

void PulseCheck::require_alive(i64 rank) {
  std::string beat;
  try {
    beat = store_.get(beat_key(rank), 0ms);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    return;  // ranks that are threads of one process have none
  }
  const auto now = Clock::now();
  const Clock::duration passed = now - std::exchange(asked_, now);
  if (passed > silence_ / 2) {  // this process stood still itself, as in a suspended job
    for (auto& [other, seen] : seen_) seen.since += passed;
  }
  Seen& seen = seen_[rank];
  if (seen.beat != beat) seen = {std::move(beat), now};
  if (now - seen.since < silence_) return;
  throw Error(fmt::format("no sign of life of rank {} for {:.1f} s",
                          rank,
                          std::chrono::duration<double>(now - seen.since).count()),
              ErrorKind::peer_silent);
}

}  // namespace tessera
