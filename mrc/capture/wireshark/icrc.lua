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

local function icrc_of(place, icrc_at)
  local covered = ICRC_COVERS_OUTER and place.ips or { place.ips[#place.ips] }
  local first = covered[1].at
  local masked = masked_bits(place, covered)
  local text = place.frame:range(first, icrc_at - first):raw()
  local register = ONES
  local headers = place.bth + 5 - first
  for at = 1, headers do
    local value = bor(byte(text, at), masked[first + at - 1] or 0)
    register = bxor(CRC_TABLE[band(bxor(register, value), 0xFF)], rshift(register, 8))
  end
  register = crc_bytes(register, text, headers + 1, #text)
  return bxor(register, 0xFFFFFFFF) % 2 ^ 32
end
