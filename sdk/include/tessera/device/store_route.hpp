#pragma once
#include <string>

#include "tessera/base/api.hpp"

namespace tessera {

/// Numeric addresses of both ends of a rank's connection to its store. Empty where no network lies
/// between: a store of this process, or of this host over a unix socket.
struct StoreRoute {
  std::string own, server;
};

/// Implemented by stores that are reached over sockets. Communicators between hosts use the same
/// network as the store unless told otherwise.
class TESSERA_API RoutedStore {
 public:
  virtual ~RoutedStore();
  virtual StoreRoute route() const = 0;
  /// Ends this rank's calls with an Error, those under way and all later ones: for a rank that
  /// fails while the store is out of reach. Does not wait; callable on any thread.
  virtual void hang_up() noexcept = 0;
};

}  // namespace tessera
