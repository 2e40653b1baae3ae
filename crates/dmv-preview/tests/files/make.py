"""The part of make.sh that needs a program: archives, Blender files, RAW files, a font."""
import gzip, struct, subprocess, zipfile
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

base = open("base.png", "rb").read()
jpeg = open("plain.jpg", "rb").read()
rgba = subprocess.check_output(["convert", "base.png", "-depth", "8", "RGBA:-"])
W, H = 24, 17
for name, method in (("packed.kra", zipfile.ZIP_DEFLATED), ("stored.ora", zipfile.ZIP_STORED)):
    with zipfile.ZipFile(name, "w", method) as z:
        z.writestr(zipfile.ZipInfo("mimetype"), "application/x-krita")
        info = zipfile.ZipInfo("mergedimage.png"); info.compress_type = method
        z.writestr(info, base)

rows = [rgba[y * W * 4:(y + 1) * W * 4] for y in range(H)]
test = struct.pack("<II", W, H) + b"".join(reversed(rows))
old = b"BLENDER-v306" + b"REND" + struct.pack("<IQII", 8, 1, 0, 1) + bytes(8)
old += b"TEST" + struct.pack("<IQII", len(test), 2, 0, 1) + test + b"ENDB" + struct.pack("<IQII", 0, 0, 0, 0)
new = b"BLENDER17-01v0500" + b"TEST" + struct.pack("<IQqq", 0, 2, len(test), 1) + test
open("plain.blend", "wb").write(old)
open("five.blend", "wb").write(new)
open("gzip.blend", "wb").write(gzip.compress(old, mtime=0))
open("zstd.blend", "wb").write(subprocess.run(["zstd", "-c"], input=old, capture_output=True, check=True).stdout)

# A RAW file: a table with the camera, one below it with the sensor's data (no picture), one with a JPEG.
def table(entries, after=0):
    out = struct.pack("<H", len(entries))
    for tag, kind, count, value in entries:
        out += struct.pack("<HHI", tag, kind, count) + (value if isinstance(value, bytes) else struct.pack("<I", value))
    return out + struct.pack("<I", after)
make, model = b"DMV Cameras\0", b"DMV Cameras R1\0\0"
first = 8 + len(make) + len(model)
subs = first + 2 + 5 * 12 + 4
sensor_at = subs + 8
sensor = table([(0x103, 3, 1, 7), (0x111, 4, 1, 8), (0x117, 4, 1, 4000)])
jpeg_at = sensor_at + len(sensor)
picture_len = 2 + 3 * 12 + 4
picture = table([(0x103, 3, 1, 6), (0x201, 4, 1, jpeg_at + picture_len), (0x202, 4, 1, len(jpeg))])
head = b"II*\0" + struct.pack("<I", first) + make + model
head += table([(0x10f, 2, len(make), 8), (0x110, 2, len(model) - 1, 8 + len(make)), (0x112, 3, 1, 8),
               (0x14a, 4, 2, subs), (0xc612, 1, 4, bytes([1, 4, 0, 0]))])
head += struct.pack("<II", sensor_at, jpeg_at) + sensor + picture + jpeg + bytes(4000)
open("camera.dng", "wb").write(head)
raf = (b"FUJIFILMCCD-RAW 0201FF389501DMV".ljust(84, b"\0") + struct.pack(">II", 100, len(jpeg))).ljust(100, b"\0")
open("camera.raf", "wb").write(raf + jpeg)

# A picture in CIE Lab with the light of D50, as the TIFF specification has it: sRGB, to XYZ, adapted by Bradford.
def lab(r, g, b):
    line = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r / 255, g / 255, b / 255)]
    to_xyz = ((0.4360747, 0.3850649, 0.1430804), (0.2225045, 0.7168786, 0.0606169), (0.0139322, 0.0971045, 0.7141733))
    x, y, z = (sum(a * c for a, c in zip(row, line)) for row in to_xyz)
    f = lambda t: t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
    fx, fy, fz = f(x / 0.9642), f(y), f(z / 0.8249)
    l, a, b = 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
    return bytes([round(l * 2.55), round(a) & 255, round(b) & 255])
pixels = b"".join(lab(*rgba[i:i + 3]) for i in range(0, len(rgba), 4))
bits_at = 8 + 2 + 9 * 12 + 4
out = b"II*\0" + struct.pack("<I", 8) + table([(0x100, 3, 1, W), (0x101, 3, 1, H), (0x102, 3, 3, bits_at), (0x103, 3, 1, 1),
    (0x106, 3, 1, 8), (0x111, 4, 1, bits_at + 6), (0x115, 3, 1, 3), (0x116, 3, 1, H), (0x117, 4, 1, len(pixels))])
open("lab.tif", "wb").write(out + struct.pack("<HHH", 8, 8, 8) + pixels)

# YCbCr in units of four pixels that share their colours, in strips of eight rows. The last units reach below the picture.
def ycc(x, y):
    r, g, b = rgba[(min(y, H - 1) * W + x) * 4:][:3]
    return 0.299 * r + 0.587 * g + 0.114 * b, 128 - 0.168736 * r - 0.331264 * g + 0.5 * b, 128 + 0.5 * r - 0.418688 * g - 0.081312 * b
def unit(x, y):
    four = [ycc(x + i, y + j) for j in (0, 1) for i in (0, 1)]
    return bytes(round(p[0]) for p in four) + bytes(min(255, round(sum(p[n] for p in four) / 4)) for n in (1, 2))
strips = [b"".join(unit(x, y) for y in range(top, min(top + 8, H), 2) for x in range(0, W, 2)) for top in range(0, H, 8)]
more_at = 8 + 2 + 10 * 12 + 4
first_at = more_at + 6 + 24
places = [first_at + sum(map(len, strips[:n])) for n in range(3)]
out = b"II*\0" + struct.pack("<I", 8) + table([(0x100, 3, 1, W), (0x101, 3, 1, H), (0x102, 3, 3, more_at), (0x103, 3, 1, 1),
    (0x106, 3, 1, 6), (0x111, 4, 3, more_at + 6), (0x115, 3, 1, 3), (0x116, 3, 1, 8), (0x117, 4, 3, more_at + 18),
    (0x212, 3, 2, struct.pack("<HH", 2, 2))])
out += struct.pack("<HHH", 8, 8, 8) + struct.pack("<6I", *places, *map(len, strips))
open("shared.tif", "wb").write(out + b"".join(strips))

# A picture whose EXIF data begins with the mark of JPEG's segment, as some programs leave it in WebP.
exif = b"Exif\0\0II*\0" + struct.pack("<I", 8) + table([(0x112, 3, 1, 6)])
chunk = lambda name, data: name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
plain = open("lossy.webp", "rb").read()[12:]
head = bytes([8, 0, 0, 0]) + (W - 1).to_bytes(3, "little") + (H - 1).to_bytes(3, "little")
body = b"WEBP" + chunk(b"VP8X", head) + plain + chunk(b"EXIF", exif)
open("turned.webp", "wb").write(b"RIFF" + struct.pack("<I", len(body)) + body)

# Icons whose PNGs have no transparency.
for name in ("base", "palette"):
    png = open(name + ".png", "rb").read()
    entry = bytes([W, H, 0, 0]) + struct.pack("<HHII", 1, 24, len(png), 22)
    open(name + ".ico", "wb").write(struct.pack("<HHH", 0, 1, 1) + entry + png)

letters = "Hamburgefonstiv 123"
names = [".notdef"] + [f"u{ord(c):04X}" for c in sorted(set(letters))]
font = FontBuilder(1000, isTTF=True)
font.setupGlyphOrder(names)
font.setupCharacterMap({ord(c): f"u{ord(c):04X}" for c in letters})
glyphs = {}
for i, name in enumerate(names):
    pen = TTGlyphPen(None)
    if name != "u0020":
        pen.moveTo((50, 0)); pen.lineTo((450, 0)); pen.qCurveTo((500 + i * 5, 400), (250, 700)); pen.closePath()
    glyphs[name] = pen.glyph()
font.setupGlyf(glyphs)
font.setupHorizontalMetrics({name: (500, 50) for name in names})
font.setupHorizontalHeader(ascent=800, descent=-200)
font.setupNameTable({"familyName": "DMV Test", "styleName": "Regular"})
font.setupOS2(); font.setupPost()
font.font["head"].created = font.font["head"].modified = 0
font.font.recalcTimestamp = False
font.save("plain.ttf")
