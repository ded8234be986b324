-- SPDX-License-Identifier: BSD-2-Clause
-- The ICRC: CRC-32 with the Ethernet polynomial over the IP packet, variable fields set to ones

local bitwise = bit32 or bit
local bxor, band, bor, rshift = bitwise.bxor, bitwise.band, bitwise.bor, bitwise.rshift
local byte = string.byte

local function crc_table()
  local entries = {}
  for value = 0, 255 do
    local register = value
    for _ = 1, 8 do
      local odd = register % 2 == 1
      register = rshift(register, 1)
      if odd then register = bxor(register, 0xEDB88320) end
    end
    entries[value] = register
  end
  return entries
end

local CRC_TABLE = crc_table()

local function crc_bytes(register, text, first, last)
  for at = first, last do
    register = bxor(CRC_TABLE[band(bxor(register, byte(text, at)), 0xFF)], rshift(register, 8))
  end
  return register
end

local ONES = crc_bytes(0xFFFFFFFF, string.rep("\255", 8), 1, 8)

-- The bits of the variable fields, by distance from the start of `place.frame`.
local function masked_bits(place, covered)
  local masked = {}
  local function add(at, mask)
    for distance, ones in pairs(mask) do masked[at + distance] = ones end
  end
  for _, ip in ipairs(covered) do add(ip.at, ip.version == 4 and IPV4_MASK or IPV6_MASK) end
  add(place.udp, TRANSPORT_MASK)
  return masked
end

-- From the first IP header that is covered up to the ICRC: the bytes, the bits in them that vary, by distance, and the
-- number of bytes that have any.
local function covered_bytes(place, icrc_at)
  local varying = UDP_LENGTH + 5
  if place.header then
    local masked = {}
    for at, ones in pairs(place.ips[1].version == 4 and IPV4_MASK or IPV6_MASK) do masked[at] = ones end
    for at, ones in pairs(TRANSPORT_MASK) do masked[#place.header + at] = ones end
    local text = place.header .. place.frame:range(place.udp, icrc_at - place.udp):raw()
    return text, masked, #place.header + varying
  end
  local covered = ICRC_COVERS_OUTER and place.ips or { place.ips[#place.ips] }
  local first = covered[1].at
  local masked = {}
  for at, ones in pairs(masked_bits(place, covered)) do masked[at - first] = ones end
  return place.frame:range(first, icrc_at - first):raw(), masked, place.udp + varying - first
end

local function icrc_of(place, icrc_at)
  local text, masked, headers = covered_bytes(place, icrc_at)
  local register = ONES
  for at = 1, headers do
    local value = bor(byte(text, at), masked[at - 1] or 0)
    register = bxor(CRC_TABLE[band(bxor(register, value), 0xFF)], rshift(register, 8))
  end
  register = crc_bytes(register, text, headers + 1, #text)
  return bxor(register, 0xFFFFFFFF) % 2 ^ 32
end
