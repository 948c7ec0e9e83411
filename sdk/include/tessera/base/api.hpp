#pragma once
// Visibility of what crosses the plugin boundary. Classes and functions of the SDK that are
// implemented in libtessera.so carry TESSERA_API; a plugin itself exports its descriptor only.

#define TESSERA_API __attribute__((visibility("default")))
