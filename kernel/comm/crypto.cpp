#include "kernel/comm/crypto.hpp"

#include <sodium.h>

#include <array>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// It may be called from any thread, any number of times.
void start() { require(sodium_init() >= 0, "store: libsodium does not start"); }

using SealNumber = std::array<unsigned char, crypto_aead_chacha20poly1305_IETF_NPUBBYTES>;

// Never twice with one key.
SealNumber next_number(u64& count) {
  SealNumber number{};
  std::memcpy(number.data(), &count, sizeof count);
  ++count;
  return number;
}

}  // namespace

std::string keyed_hash(std::string_view key, std::initializer_list<std::string_view> parts) {
  start();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(key), key.size());
  for (const std::string_view part : parts) {
    const u64 size = part.size();
    crypto_auth_hmacsha256_update(
        &state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
    crypto_auth_hmacsha256_update(&state, bytes_of(part), part.size());
  }
  std::string hash(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_final(&state, bytes_of(hash));
  return hash;
}

std::string random_bytes(std::size_t count) {
  start();
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), count);
  return bytes;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string hex_text(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes_of(bytes), bytes.size());
  text.pop_back();
  return text;
}

std::string SealedMessages::seal(std::string_view text) {
  start();
  const SealNumber number = next_number(number_);
  std::string sealed(text.size() + crypto_aead_chacha20poly1305_IETF_ABYTES, '\0');
  crypto_aead_chacha20poly1305_ietf_encrypt(bytes_of(sealed),
                                            nullptr,
                                            bytes_of(text),
                                            text.size(),
                                            nullptr,
                                            0,
                                            nullptr,
                                            number.data(),
                                            bytes_of(key_));
  return sealed;
}

std::string SealedMessages::open(std::string_view sealed) {
  start();
  constexpr std::size_t kTag = crypto_aead_chacha20poly1305_IETF_ABYTES;
  const SealNumber number = next_number(number_);
  std::string text(sealed.size() < kTag ? 0 : sealed.size() - kTag, '\0');
  const bool good =
      sealed.size() >= kTag && crypto_aead_chacha20poly1305_ietf_decrypt(bytes_of(text),
                                                                         nullptr,
                                                                         nullptr,
                                                                         bytes_of(sealed),
                                                                         sealed.size(),
                                                                         nullptr,
                                                                         0,
                                                                         number.data(),
                                                                         bytes_of(key_)) == 0;
  require(good, "store: a message was changed on its way, or is of another connection");
  return text;
}

}  // namespace tessera
