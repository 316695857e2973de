// Keys, their file, and buckets: what the server's access rules are made of.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "engine/base/error.hpp"
#include "web/access/address_counter.hpp"
#include "web/access/digest.hpp"
#include "web/access/key_file.hpp"
#include "web/access/key_ring.hpp"
#include "web/access/token_bucket.hpp"

using namespace sluice::web;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const std::string kHexOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

KeyEntry entry(const std::string& name, const std::string& key) {
  KeyEntry made;
  made.name = name;
  made.digest = digest_of(key);
  return made;
}

}  // namespace

TEST_CASE("security: digests are SHA-256 and survive hexadecimal") {
  CHECK(to_hex(digest_of("abc")) == kHexOfAbc);  // FIPS 180-2, appendix B.1
  CHECK(digest_from_hex(kHexOfAbc) == digest_of("abc"));
  std::string upper = kHexOfAbc;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  CHECK(digest_from_hex(upper) == digest_of("abc"));
  CHECK_FALSE(digest_from_hex(kHexOfAbc.substr(1)));
  CHECK_FALSE(digest_from_hex(kHexOfAbc + "0"));
  CHECK_FALSE(digest_from_hex("g" + kHexOfAbc.substr(1)));
}

TEST_CASE("security: the comparison sees a difference in every bit") {
  const Digest one = digest_of("one");
  CHECK(equal_in_constant_time(one, one));
  for (std::size_t bit = 0; bit < 8 * one.size(); ++bit) {
    Digest other = one;
    other[bit / 8] = static_cast<std::uint8_t>(other[bit / 8] ^ (1U << (bit % 8)));
    CHECK_FALSE(equal_in_constant_time(one, other));
    CHECK_FALSE(equal_in_constant_time(other, one));
  }
}

TEST_CASE("security: new keys are long, different, and fit into a header") {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    const std::string key = new_key();
    CHECK(key.size() == 50);
    CHECK(has_form_of_key(key));
    keys.insert(key);
  }
  CHECK(keys.size() == 100);
  CHECK_FALSE(has_form_of_key("short"));
  CHECK_FALSE(has_form_of_key(std::string(30, ' ')));
  CHECK_FALSE(has_form_of_key(std::string(30, '\xc3')));
  CHECK_FALSE(has_form_of_key(std::string(201, 'a')));
}

TEST_CASE("security: a file of keys is read") {
  const auto entries = parse_key_file("# who\r\n\n  alice\tsha256:" + kHexOfAbc +
                                          "  requests=60/min streams=4 tokens=20000/hour\r\n"
                                          "bob@example.org " +
                                          key_line("x", new_key()).substr(2) + " observe",
                                      "keys");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "alice");
  CHECK(entries[0].digest == digest_of("abc"));
  CHECK(entries[0].requests == Rate{60.0, 1.0});
  CHECK(entries[0].tokens.amount == 20000.0);
  CHECK(entries[0].streams == 4);
  CHECK_FALSE(entries[0].observes);
  CHECK(entries[1].name == "bob@example.org");
  CHECK(entries[1].observes);
  CHECK_FALSE(entries[1].requests.limited());
}

TEST_CASE("security: faults in a file of keys are named without showing it") {
  const std::string good = "alice sha256:" + kHexOfAbc;
  const auto fault = [](const std::string& text) -> std::string {
    try {
      parse_key_file(text, "keys");
    } catch (const sluice::Error& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(fault(""), Catch::StartsWith("keys has no keys"));
  CHECK_THAT(fault("# only words\n"), Catch::StartsWith("keys has no keys"));
  CHECK_THAT(fault(good + "\nbo:b " + kHexOfAbc), Catch::StartsWith("keys:2: the name"));
  CHECK_THAT(fault(good + "\n\n" + good), Catch::StartsWith("keys:3: this key is in the file"));
  CHECK_THAT(fault(good + " admin"), Catch::StartsWith("keys:1: after the digest"));
  for (const char* rate :
       {"60", "x/min", "60/year", "0/min", "-1/min", "1.5/min", "/min", "60/", "99999999999/s"}) {
    INFO(rate);
    CHECK_THAT(fault(good + " requests=" + rate), Catch::StartsWith("keys:1: requests needs"));
  }
  for (const char* streams : {"streams", "streams=", "streams=0", "streams=-1", "streams=2x"}) {
    INFO(streams);
    CHECK_THAT(fault(good + " " + streams), Catch::StartsWith("keys:1: streams needs"));
  }
  // Somebody wrote the key itself: it must not end up in a log.
  const std::string key = new_key();
  CHECK_THAT(fault("alice " + key), Catch::StartsWith("keys:1: behind the name comes"));
  CHECK_THAT(fault("alice " + key), !Catch::Contains(key));
  CHECK_THAT(fault("alice sha256:" + key), !Catch::Contains(key));
  CHECK_THROWS_AS(read_key_file("/no/such/file"), sluice::Error);
}

TEST_CASE("security: a bucket lets through what it holds and then its rate") {
  const auto start = TokenBucket::Clock::now();
  TokenBucket bucket({60.0, 1.0}, start);
  for (int i = 0; i < 60; ++i) {
    CHECK(bucket.wait_for(1.0, start).count() == 0);
    bucket.take(1.0, start);
  }
  CHECK(bucket.wait_for(1.0, start) == seconds(1));
  CHECK(bucket.wait_for(1.0, start + milliseconds(400)) == milliseconds(600));
  CHECK(bucket.wait_for(1.0, start + seconds(1)).count() == 0);
  // Never more than it holds, however long it was left alone.
  CHECK(bucket.wait_for(60.0, start + seconds(10000)).count() == 0);
  CHECK(bucket.wait_for(61.0, start + seconds(10000)) == seconds(1));
}

TEST_CASE("security: a bucket falls below zero and comes back") {
  const auto start = TokenBucket::Clock::now();
  TokenBucket bucket({10.0, 10.0}, start);
  bucket.take(110.0, start);
  CHECK(bucket.wait_for(1.0, start) == milliseconds(10100));
  CHECK(bucket.wait_for(1.0, start + milliseconds(10100)).count() == 0);
  // Half as much from now on: what was used stays used.
  bucket.change({5.0, 5.0}, start + milliseconds(10100));
  CHECK(bucket.wait_for(1.0, start + milliseconds(10100)) == seconds(1));
  TokenBucket unlimited({}, start);
  unlimited.take(1e9, start);
  CHECK(unlimited.wait_for(1e9, start).count() == 0);
}

TEST_CASE("security: a key ring finds holders and revokes those who are gone") {
  const std::string a = new_key();
  const std::string b = new_key();
  KeyRing ring;
  CHECK_FALSE(ring.find(a));
  KeyEntry limited = entry("a", a);
  limited.requests = {1.0, 1e-6};
  ring.set({limited, entry("b", b)});
  const CallerPtr alice = ring.find(a);
  const CallerPtr bob = ring.find(b);
  REQUIRE(alice);
  REQUIRE(bob);
  CHECK(alice->name() == "a");
  CHECK_FALSE(ring.find(a.substr(1)));
  CHECK_FALSE(ring.find(a + "a"));
  CHECK_FALSE(ring.find(""));
  CHECK_FALSE(ring.find(to_hex(digest_of(a))));
  CHECK_FALSE(alice->take_request());

  // Read again: who stays keeps what is used, who is gone loses the right.
  ring.set({limited});
  CHECK(ring.find(a) == alice);
  CHECK_FALSE(alice->revoked());
  CHECK(bob->revoked());
  CHECK_FALSE(ring.find(b));
  const auto refused = alice->take_request();
  REQUIRE(refused);
  CHECK_THAT(refused->message, Catch::StartsWith("The key of \"a\" has used up its requests;"));
  CHECK(refused->retry_after.count() > 0);
}

TEST_CASE("security: tokens are charged for and hold back the next request") {
  KeyEntry limited = entry("a", new_key());
  limited.tokens = {100.0, 10.0};
  const auto start = Caller::Clock::now();
  Caller caller(limited, start);
  CHECK_FALSE(caller.take_request(start));
  caller.charge_tokens(300, start);
  const auto refused = caller.take_request(start);
  REQUIRE(refused);
  CHECK(refused->retry_after == milliseconds(20100));
  CHECK_FALSE(caller.take_request(start + milliseconds(20100)));
}

TEST_CASE("security: connections count by address") {
  using boost::asio::ip::make_address;
  AddressCounter counter(2);
  auto one = counter.enter(make_address("10.0.0.1"));
  auto two = counter.enter(make_address("::ffff:10.0.0.1"));  // the same by another form
  CHECK(one);
  CHECK(two);
  CHECK_FALSE(counter.enter(make_address("10.0.0.1")));
  CHECK(counter.count(make_address("10.0.0.1")) == 2);
  CHECK(counter.enter(make_address("10.0.0.2")));
  one.reset();
  CHECK(counter.enter(make_address("10.0.0.1")));
  two.reset();
  CHECK(counter.count(make_address("10.0.0.1")) == 0);

  const auto v6 = counter.enter(make_address("2001:db8:0:1::1"));
  const auto neighbour = counter.enter(make_address("2001:db8:0:1:ffff::2"));
  CHECK(neighbour);
  CHECK_FALSE(counter.enter(make_address("2001:db8:0:1::3")));
  CHECK(counter.enter(make_address("2001:db8:0:2::1")));
}
