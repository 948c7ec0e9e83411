#pragma once

namespace tessera {

// Values of Error::exit_code for errors that another rank is to blame for. Communicators and stores
// throw them. Reports of failures then look for that rank; no program ends with these codes.

/// Another rank failed or ended, and this rank was told.
inline constexpr int kPeerFailed = 75;
/// This rank waited for another one in vain. Nobody knows yet who is to blame: the rank that it
/// waited for may have been waiting too.
inline constexpr int kPeerSilent = 76;

constexpr bool blames_peer(int exit_code) {
  return exit_code == kPeerFailed || exit_code == kPeerSilent;
}

}  // namespace tessera
